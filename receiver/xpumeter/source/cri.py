# SPDX-License-Identifier: Apache-2.0
"""Containers and pod sandboxes, as the container runtime lists them over CRI.

Only lists, never events: on some runtimes one queue of events is shared by all subscribers, and
what we took from it the kubelet would miss.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
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


def find_endpoints(root: Path = Path("/")) -> list[str]:
    """Endpoints of the usual sockets that are there, in the order of asking."""
    found = []
    for socket in SOCKETS:
        path = root / socket
        try:
            if path.is_socket():
                found.append(f"unix://{path}")
        except OSError:  # a folder that we may not enter
            continue
    return found


class Runtime:
    """A container runtime at an endpoint (`unix:///run/containerd/containerd.sock`, or a path).

    Without an endpoint, of the usual sockets below `root` the first is taken that lists somebody
    who is asked for: a host may have a runtime that the kubelet does not use, or not any more. It
    is kept until it fails, or knows none of those who are asked for. `on_request` is told of each
    request that was sent, once it is over.

    Attributes:
        lists: Requests that the last question took.
        bad_records: Records passed over: without an id, or with one that was there already.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        timeout_s: float = 2.0,
        root: Path = Path("/"),
        on_request: Callable[[Request], None] | None = None,
    ) -> None:
        self.lists = 0
        self.bad_records = 0
        self._timeout_s = timeout_s
        self._root = root
        self._on_request = on_request
        self._chooses = endpoint is None
        self._endpoint = ""
        self._channel: grpc.Channel | None = None
        if endpoint is not None:
            self._connect(endpoint)

    def close(self) -> None:
        """Let go of the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def records(self, wanted: Collection[str]) -> dict[str, ContainerRecord]:
        """All containers by their id, those that have exited included.

        The pods' sandboxes come with them if the containers alone do not name all of `wanted`, ids
        of containers and uids of pods. One call or two, each with the deadline; while there is a
        socket to choose, so many for each.

        Raises:
            RuntimeUnavailable: The runtime did not answer, or answered nonsense.
        """
        self.lists = 0
        if self._channel is None:
            return self._choose(wanted)
        try:
            found = self._lists(self._channel, wanted)
        except RuntimeUnavailable:
            self._let_go()
            raise
        if not _knows(found, wanted):
            self._let_go()
        return found

    def _let_go(self) -> None:
        if self._chooses:
            self.close()

    def _choose(self, wanted: Collection[str]) -> dict[str, ContainerRecord]:
        answers, refusals = [], []
        for endpoint in find_endpoints(self._root):
            try:
                found = self._lists(self._connect(endpoint), wanted)
            except RuntimeUnavailable as refusal:
                refusals.append(str(refusal))
            else:
                if _knows(found, wanted):
                    return found
                answers.append(found)
            self.close()
        if answers:
            return max(answers, key=len)
        if refusals:
            raise RuntimeUnavailable("; ".join(refusals), hint=_HINT)
        raise RuntimeUnavailable(
            f"no container runtime: no socket at {', '.join(str(self._root / s) for s in SOCKETS)}",
            hint="name the socket in receivers.xpumeter.runtime_endpoint, or say `none`",
        )

    def _connect(self, endpoint: str) -> grpc.Channel:
        self._endpoint = f"unix://{endpoint}" if endpoint.startswith("/") else endpoint
        self._channel = grpc.insecure_channel(self._endpoint, options=_OPTIONS)
        return self._channel

    def _lists(self, channel: grpc.Channel, wanted: Collection[str]) -> dict[str, ContainerRecord]:
        # In this order no container comes without its sandbox because both are new.
        containers = self._ask(channel, "ListContainers", cri_pb2.ListContainersResponse).containers
        pods: dict[str, ContainerRecord] = {}
        if not _suffice(containers, wanted):
            answer = self._ask(channel, "ListPodSandbox", cri_pb2.ListPodSandboxResponse)
            pods = self._by_id({}, map(_of_sandbox, answer.items))
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

    def _ask(self, channel: grpc.Channel, method: str, response: type[_M]) -> _M:
        # As bytes, since gRPC logs a traceback of its own for an answer that it cannot decode.
        call = channel.unary_unary(
            f"/{_SERVICE}{method}", request_serializer=bytes, response_deserializer=bytes
        )
        self.lists += 1
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


def _knows(records: Mapping[str, ContainerRecord], wanted: Collection[str]) -> bool:
    """Whether anybody who is wanted is among them."""
    uids = {each.pod_uid for each in records.values()}
    return any(each in records or each in uids for each in wanted)


def _suffice(containers: Iterable[cri_pb2.Container], wanted: Collection[str]) -> bool:
    """Whether the containers' own records have every name that is wanted."""
    records = [_of_container(each, _NO_SANDBOX) for each in containers]
    whole = [
        each
        for each in records
        if each.name and each.pod_name and each.pod_namespace and each.pod_uid
    ]
    ids, uids = {each.container_id for each in whole}, {each.pod_uid for each in whole}
    return all(each in ids or each in uids for each in wanted)


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
