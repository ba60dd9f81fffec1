# SPDX-License-Identifier: Apache-2.0
"""What a container runtime says, from a real gRPC server on a real socket."""

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from xpumeter.errors import RuntimeUnavailable
from xpumeter.model.owners import ContainerRecord
from xpumeter.model.stats import Request
from xpumeter.source import cri_pb2
from xpumeter.source.cri import SOCKETS, Runtime, find_endpoint

UID, ID, SANDBOX = "b5ebee9a-740b-4b72-b4b4-200165f8c557", "c" * 64, "5" * 64
LABELS = {
    "io.kubernetes.pod.name": "trainer-0",
    "io.kubernetes.pod.namespace": "ml",
    "io.kubernetes.pod.uid": UID,
}
METADATA = cri_pb2.PodSandboxMetadata(name="trainer-0", uid=UID, namespace="ml")

FULL = ContainerRecord(ID, False, "main", "trainer-0", "ml", UID)
POD = ContainerRecord(SANDBOX, True, None, "trainer-0", "ml", UID)

Answer = Callable[[grpc.ServicerContext], bytes]


class Server:
    """A runtime's socket; `answers` says what each method gives, as bytes."""

    def __init__(self, folder: Path) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, bytes]] = []
        self.path = folder / "runtime.sock"
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


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A runtime that answers UNIMPLEMENTED until it is told more."""
    server = Server(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def requests() -> list[Request]:
    """What our side told of its requests."""
    return []


@pytest.fixture
def runtime(server: Server, requests: list[Request]) -> Iterator[Runtime]:
    """Our side of it."""
    runtime = Runtime(str(server.path), timeout_s=5, on_request=requests.append)
    yield runtime
    runtime.close()


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


def test_containers_and_sandboxes_come_by_their_id(
    server: Server, runtime: Runtime, requests: list[Request]
) -> None:
    """One call each, without a filter: all states, nothing subscribed."""
    server.lists([container()], [sandbox()])

    assert runtime.records() == {ID: FULL, SANDBOX: POD}
    assert server.asked == [("ListContainers", b""), ("ListPodSandbox", b"")]
    assert [(each.method, each.error) for each in requests] == [
        ("runtime.v1.RuntimeService/ListContainers", ""),
        ("runtime.v1.RuntimeService/ListPodSandbox", ""),
    ]
    assert runtime.bad_records == 0


def test_what_containerd_sends_beside_it_is_passed_over(server: Server, runtime: Runtime) -> None:
    """Image, state, times and annotations, which cri.proto leaves out, do not disturb."""
    # The kubelet's api.proto: 4 image, 5 image_ref, 6 state, 7 created_at, 9 annotations.
    record = (
        b"\x0a\x40" + ID.encode() + b"\x12\x40" + SANDBOX.encode() + b"\x1a\x08\x0a\x04main\x10\x01"
        b"\x22\x12\x0a\x10localhost/work:1\x2a\x07sha256:\x30\x01\x38\x80\x94\xeb\xdc\x03"
        b"\x42\x20\x0a\x1bio.kubernetes.pod.namespace\x12\x01x"
        b"\x4a\x0a\x0a\x05color\x12\x01b"
    )
    answer = b"\x0a" + bytes([len(record) & 0x7F | 0x80, len(record) >> 7]) + record
    server.answers = {"ListContainers": lambda _: answer, "ListPodSandbox": lambda _: b""}

    assert runtime.records() == {ID: ContainerRecord(ID, False, "main", None, "x", None)}


def test_metadata_is_believed_before_labels(server: Server, runtime: Runtime) -> None:
    """Labels are a habit of the kubelet; they stand in where metadata says nothing."""
    lying = dict.fromkeys((*LABELS, "io.kubernetes.container.name"), "label")
    bare = "b" * 64
    server.lists(
        [
            cri_pb2.Container(
                id=ID,
                pod_sandbox_id=SANDBOX,
                metadata=cri_pb2.ContainerMetadata(name="main"),
                labels=lying,
            ),
            cri_pb2.Container(id=bare, pod_sandbox_id="unknown", labels=lying),
        ],
        [
            cri_pb2.PodSandbox(id=SANDBOX, metadata=METADATA, labels=lying),
            cri_pb2.PodSandbox(id="6" * 64, labels=LABELS),
        ],
    )

    records = runtime.records()

    assert (records[ID], records[SANDBOX]) == (FULL, POD)
    assert records[bare] == ContainerRecord(bare, False, "label", "label", "label", "label")
    assert records["6" * 64] == ContainerRecord("6" * 64, True, None, "trainer-0", "ml", UID)


def test_what_is_empty_is_absent(server: Server, runtime: Runtime) -> None:
    """`crictl runp` sets no labels: names are None, never empty."""
    labels = {"io.kubernetes.pod.name": "", "io.kubernetes.container.name": ""}
    server.lists(
        [cri_pb2.Container(id=ID, labels=labels)], [cri_pb2.PodSandbox(id=SANDBOX, labels=labels)]
    )

    assert runtime.records() == {
        ID: ContainerRecord(ID, False, None, None, None, None),
        SANDBOX: ContainerRecord(SANDBOX, True, None, None, None, None),
    }


def test_a_bad_record_costs_only_itself(server: Server, runtime: Runtime) -> None:
    """Records without an id, or with one that came before, are counted and passed over."""
    server.lists(
        [container(), container(""), container(name="twin"), container(SANDBOX)],
        [sandbox(), cri_pb2.PodSandbox(metadata=METADATA)],
    )

    assert runtime.records() == {ID: FULL, SANDBOX: POD}
    assert runtime.bad_records == 4


def test_a_node_without_containers_has_none(server: Server, runtime: Runtime) -> None:
    """Two empty lists are an answer."""
    server.lists([], [])

    assert runtime.records() == {}


def test_ten_thousand_containers_fit(server: Server, runtime: Runtime) -> None:
    """A list that outgrows gRPC's usual 4 MiB arrives whole."""
    each = [container(f"{number:064x}") for number in range(10_000)]
    for one in each:
        one.labels["filler"] = "x" * 400
    server.lists(each, [sandbox()])
    assert len(server.answers["ListContainers"](None)) > 4 << 20  # type: ignore[arg-type]

    assert len(runtime.records()) == 10_001


def test_a_runtime_that_hangs_costs_the_deadline(server: Server) -> None:
    """No answer within the deadline is an error, not a wait for ever."""
    done = threading.Event()
    server.answers = {"ListContainers": lambda _: bytes(done.wait(30))}
    told: list[Request] = []
    runtime = Runtime(f"unix://{server.path}", timeout_s=0.2, on_request=told.append)

    with pytest.raises(RuntimeUnavailable, match=r"ListContainers: DEADLINE_EXCEEDED"):
        runtime.records()

    (request,) = told
    assert request.error == "DEADLINE_EXCEEDED"
    assert 0.2 <= request.duration_s < 5
    done.set()
    runtime.close()


@pytest.mark.parametrize("nonsense", [b"\xff" * 40, b"HTTP/1.1 400 Bad Request", b"\x0a\x05abc"])
def test_nonsense_is_an_error(
    server: Server, runtime: Runtime, requests: list[Request], nonsense: bytes
) -> None:
    """Bytes that are no CRI message are refused as a whole."""
    server.answers = {"ListContainers": lambda _: nonsense, "ListPodSandbox": lambda _: b""}

    with pytest.raises(RuntimeUnavailable, match="ListContainers: the answer is no CRI message"):
        runtime.records()
    assert [each.error for each in requests] == ["malformed"]


def test_a_runtime_without_its_cri_plugin_says_so(server: Server, runtime: Runtime) -> None:
    """UNIMPLEMENTED is told in words: that is all one sees of a CRI plugin that did not load."""
    with pytest.raises(RuntimeUnavailable) as raised:
        runtime.records()

    assert str(raised.value) == f"unix://{server.path}: ListContainers: it does not serve CRI v1"
    assert "CRI plugin is loaded" in raised.value.hint


def test_half_an_answer_is_none(server: Server, runtime: Runtime, requests: list[Request]) -> None:
    """Containers without sandboxes would make sandboxes look like containers of nobody."""
    server.lists([container()], [])
    del server.answers["ListPodSandbox"]

    with pytest.raises(RuntimeUnavailable, match="ListPodSandbox"):
        runtime.records()
    assert [each.error for each in requests] == ["", "UNIMPLEMENTED"]


def test_no_runtime_is_an_error_at_once(tmp_path: Path) -> None:
    """A socket that is not there does not take the deadline's time."""
    runtime = Runtime(str(tmp_path / "none.sock"), timeout_s=30)

    with pytest.raises(RuntimeUnavailable, match="ListContainers: UNAVAILABLE"):
        runtime.records()
    runtime.close()


def test_a_runtime_that_comes_back_is_found_again(tmp_path: Path) -> None:
    """After a restart of the runtime, the next questions get their answers."""
    first = Server(tmp_path)
    first.lists([container()], [])
    runtime = Runtime(str(first.path), timeout_s=5)
    assert runtime.records()
    first.stop()
    with pytest.raises(RuntimeUnavailable):
        runtime.records()

    second = Server(tmp_path)
    second.lists([container()], [sandbox()])
    for _ in range(100):
        try:
            records = runtime.records()
            break
        except RuntimeUnavailable:
            threading.Event().wait(0.1)
    assert records == {ID: FULL, SANDBOX: POD}
    runtime.close()
    second.stop()


def test_the_first_socket_that_is_there_is_the_endpoint(tmp_path: Path) -> None:
    """In the order of SOCKETS; a file or a folder in the place of a socket is none."""
    assert find_endpoint(tmp_path) is None
    crio = tmp_path / "run/crio"
    crio.mkdir(parents=True)
    server = Server(crio)
    server.path.rename(crio / "crio.sock")
    (tmp_path / "run/containerd/containerd.sock").mkdir(parents=True)

    assert find_endpoint(tmp_path) == f"unix://{crio}/crio.sock"
    assert SOCKETS[0] == "run/containerd/containerd.sock"
    server.stop()
