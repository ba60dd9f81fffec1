# SPDX-License-Identifier: Apache-2.0
"""Containers and pod sandboxes, as the container runtime lists them over CRI.

Only lists, never events: on some runtimes one queue of events is shared by all subscribers, and
what we took from it the kubelet would miss.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from xpumeter.errors import RuntimeUnavailable
from xpumeter.model.owners import ContainerRecord
from xpumeter.model.stats import Request
from xpumeter.source import cri_pb2

SOCKETS = (
    "run/containerd/containerd.sock",
    "run/k3s/containerd/containerd.sock",  # k3s, rke2
    "run/crio/crio.sock",
    "run/cri-dockerd.sock",
    "var/snap/microk8s/common/run/containerd.sock",
    "run/k0s/containerd.sock",
)
"""Where runtimes listen, below the root, in the order of asking."""

_SERVICE = "runtime.v1.RuntimeService/"
_MALFORMED = "malformed"
_OPTIONS = (
    # As the kubelet: a node's list with annotations outgrows gRPC's 4 MiB.
    ("grpc.max_receive_message_length", 16 << 20),
    # A runtime that restarts is asked again within seconds, not within gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5000),
)

_HINT = (
    "counts go on and get their names later; check that the runtime runs, that its CRI plugin is "
    "loaded, and that this process may open its socket"
)
_POD_LABEL = "io.kubernetes.pod."
_NO_SANDBOX = ContainerRecord("", True, None, None, None, None)

_M = TypeVar("_M", bound=Message)


def find_endpoint(root: Path = Path("/")) -> str | None:
    """Endpoint of the first runtime's socket that is there, or None."""
    for socket in SOCKETS:
        path = root / socket
        try:
            if path.is_socket():
                return f"unix://{path}"
        except OSError:  # a folder that we may not enter
            continue
    return None


class Runtime:
    """A container runtime at an endpoint (`unix:///run/containerd/containerd.sock`, or a path).

    Without an endpoint the first of the usual sockets is taken that is there when it is asked.
    `on_request` is told of each request that was sent, once it is over.

    Attributes:
        bad_records: Records passed over: without an id, or with one that was there already.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        timeout_s: float = 2.0,
        on_request: Callable[[Request], None] | None = None,
    ) -> None:
        self.bad_records = 0
        self._timeout_s = timeout_s
        self._on_request = on_request
        self._endpoint = ""
        self._channel: grpc.Channel | None = None
        if endpoint is not None:
            self._connect(endpoint)

    def _connect(self, endpoint: str) -> grpc.Channel:
        self._endpoint = f"unix://{endpoint}" if endpoint.startswith("/") else endpoint
        self._channel = grpc.insecure_channel(self._endpoint, options=_OPTIONS)
        return self._channel

    def _found(self) -> grpc.Channel:
        endpoint = find_endpoint()
        if endpoint is None:
            raise RuntimeUnavailable(
                "no container runtime: none of the usual sockets is there",
                hint="name the socket in receivers.xpumeter.runtime_endpoint, or say `none`",
            )
        return self._connect(endpoint)

    def close(self) -> None:
        """Let go of the connection."""
        if self._channel is not None:
            self._channel.close()

    def records(self) -> dict[str, ContainerRecord]:
        """All containers and sandboxes by their id, those that have exited included.

        Two calls, each with the deadline.

        Raises:
            RuntimeUnavailable: The runtime did not answer, or answered nonsense.
        """
        # In this order no container comes without its sandbox because both are new.
        containers = self._ask("ListContainers", cri_pb2.ListContainersResponse).containers
        sandboxes = self._ask("ListPodSandbox", cri_pb2.ListPodSandboxResponse).items

        pods = self._by_id({}, map(_of_sandbox, sandboxes))
        return self._by_id(
            pods,
            (
                _of_container(each, pods.get(each.pod_sandbox_id, _NO_SANDBOX))
                for each in containers
            ),
        )

    def _by_id(
        self, known: Mapping[str, ContainerRecord], new: Iterable[ContainerRecord]
    ) -> dict[str, ContainerRecord]:
        records = dict(known)
        for record in new:
            if not record.container_id or record.container_id in records:
                self.bad_records += 1
            else:
                records[record.container_id] = record
        return records

    def _ask(self, method: str, response: type[_M]) -> _M:
        channel = self._channel or self._found()
        # As bytes, since gRPC logs a traceback of its own for an answer that it cannot decode.
        call = channel.unary_unary(
            f"/{_SERVICE}{method}", request_serializer=bytes, response_deserializer=bytes
        )
        began_s, failed = time.monotonic(), ""
        try:
            # Both requests are empty messages: no filter.
            return response.FromString(call(b"", timeout=self._timeout_s))
        except grpc.RpcError as error:
            failed = error.code().name
            raise RuntimeUnavailable(
                f"{self._endpoint}: {method}: {_why(error)}", hint=_HINT
            ) from error
        except DecodeError as error:
            failed = _MALFORMED
            raise RuntimeUnavailable(
                f"{self._endpoint}: {method}: the answer is no CRI message", hint=_HINT
            ) from error
        finally:
            if self._on_request is not None:
                took_s = time.monotonic() - began_s
                self._on_request(Request(f"{_SERVICE}{method}", took_s, failed))


def _of_sandbox(sandbox: cri_pb2.PodSandbox) -> ContainerRecord:
    # The kubelet's labels are a convention; metadata is part of the CRI.
    metadata, labels = sandbox.metadata, sandbox.labels
    return ContainerRecord(
        container_id=sandbox.id,
        sandbox=True,
        name=None,
        pod_name=metadata.name or labels.get(_POD_LABEL + "name") or None,
        pod_namespace=metadata.namespace or labels.get(_POD_LABEL + "namespace") or None,
        pod_uid=metadata.uid or labels.get(_POD_LABEL + "uid") or None,
    )


def _of_container(container: cri_pb2.Container, pod: ContainerRecord) -> ContainerRecord:
    labels = container.labels
    return ContainerRecord(
        container_id=container.id,
        sandbox=False,
        name=container.metadata.name or labels.get("io.kubernetes.container.name") or None,
        pod_name=pod.pod_name or labels.get(_POD_LABEL + "name") or None,
        pod_namespace=pod.pod_namespace or labels.get(_POD_LABEL + "namespace") or None,
        pod_uid=pod.pod_uid or labels.get(_POD_LABEL + "uid") or None,
    )


def _why(error: grpc.RpcError) -> str:
    code, details = error.code(), error.details()
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return "it does not serve CRI v1"
    return f"{code.name}: {details}"
