# SPDX-License-Identifier: Apache-2.0
"""A container runtime's socket, with a real gRPC server behind it, and what it may list."""

from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc

from xpumeter.model.owners import ContainerRecord
from xpumeter.source import cri_pb2

UID, ID, SANDBOX = "b5ebee9a-740b-4b72-b4b4-200165f8c557", "c" * 64, "5" * 64
LABELS = {
    "io.kubernetes.pod.name": "trainer-0",
    "io.kubernetes.pod.namespace": "ml",
    "io.kubernetes.pod.uid": UID,
}
NAME = cri_pb2.ContainerMetadata(name="main")
METADATA = cri_pb2.PodSandboxMetadata(name="trainer-0", uid=UID, namespace="ml")

PODS_TOO = (UID, "a container that is not listed")
"""Wanted, and not to be had from the containers alone."""

FULL = ContainerRecord(ID, False, "main", "trainer-0", "ml", UID)
POD = ContainerRecord(SANDBOX, True, None, "trainer-0", "ml", UID)

Answer = Callable[[grpc.ServicerContext], bytes]


class Server:
    """A runtime's socket; `answers` says what each method gives, as bytes."""

    def __init__(self, path: Path) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, bytes]] = []
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((_Handler(self),))
        self._server.add_insecure_port(f"unix://{self.path}")
        self._server.start()

    def lists(
        self, containers: list[cri_pb2.Container], sandboxes: list[cri_pb2.PodSandbox]
    ) -> None:
        """Answer both lists."""
        first = cri_pb2.ListContainersResponse(containers=containers).SerializeToString()
        second = cri_pb2.ListPodSandboxResponse(items=sandboxes).SerializeToString()
        self.answers = {"ListContainers": lambda _: first, "ListPodSandbox": lambda _: second}

    def stop(self) -> None:
        """Stop listening."""
        self._server.stop(None).wait()


# Generic in the stubs only.
class _Handler(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    def __init__(self, server: Server) -> None:
        self._server = server

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        service, _, method = handler_call_details.method.rpartition("/")
        if service != "/runtime.v1.RuntimeService" or method not in self._server.answers:
            return None  # UNIMPLEMENTED

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            self._server.asked.append((method, request))
            return self._server.answers[method](context)

        return grpc.unary_unary_rpc_method_handler(answer)


@contextmanager
def serving(path: Path) -> Iterator[Server]:
    """A runtime at this socket that answers UNIMPLEMENTED until it is told more."""
    server = Server(path)
    try:
        yield server
    finally:
        server.stop()


def container(
    container_id: str = ID, sandbox: str = SANDBOX, name: str = "main"
) -> cri_pb2.Container:
    """A container as containerd lists it."""
    return cri_pb2.Container(
        id=container_id,
        pod_sandbox_id=sandbox,
        metadata=cri_pb2.ContainerMetadata(name=name),
        labels={**LABELS, "io.kubernetes.container.name": name},
    )


def sandbox() -> cri_pb2.PodSandbox:
    """The pod's sandbox."""
    return cri_pb2.PodSandbox(id=SANDBOX, metadata=METADATA, labels={**LABELS, "app": "trainer"})
