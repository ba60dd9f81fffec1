# SPDX-License-Identifier: Apache-2.0
"""What a container runtime says, from a real gRPC server on a real socket."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_runtime import (
    FULL,
    ID,
    LABELS,
    METADATA,
    NAME,
    POD,
    PODS_TOO,
    SANDBOX,
    UID,
    Server,
    container,
    sandbox,
    serving,
)
from xpumeter.errors import RuntimeUnavailable
from xpumeter.model.owners import ContainerRecord
from xpumeter.model.stats import Request
from xpumeter.source import cri_pb2
from xpumeter.source.cri import Runtime

SOCKET = "runtime.sock"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A runtime that answers UNIMPLEMENTED until it is told more."""
    with serving(tmp_path / SOCKET) as server:
        yield server


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


def test_containers_and_sandboxes_come_by_their_id(
    server: Server, runtime: Runtime, requests: list[Request]
) -> None:
    """One call each, without a filter: all states, nothing subscribed."""
    server.lists([container()], [sandbox()])

    assert runtime.records(PODS_TOO) == {ID: FULL, SANDBOX: POD}
    assert server.asked == [("ListContainers", b""), ("ListPodSandbox", b"")]
    assert [(each.method, each.error) for each in requests] == [
        ("runtime.v1.RuntimeService/ListContainers", ""),
        ("runtime.v1.RuntimeService/ListPodSandbox", ""),
    ]
    assert runtime.bad_records == 0


def test_sandboxes_are_listed_only_where_containers_do_not_say_all(
    server: Server, runtime: Runtime
) -> None:
    """The kubelet's labels name container and pod: half the calls under churn."""
    server.lists([container()], [sandbox()])

    assert runtime.records({ID}) == runtime.records({UID}) == {ID: FULL}
    assert runtime.lists == 1
    assert [method for method, _ in server.asked] == ["ListContainers"] * 2

    server.lists([cri_pb2.Container(id=ID, pod_sandbox_id=SANDBOX, metadata=NAME)], [sandbox()])
    assert runtime.records({ID}) == {ID: FULL, SANDBOX: POD}
    assert runtime.lists == 2


def test_init_sidecar_ephemeral_and_exited_containers_are_containers(
    server: Server, runtime: Runtime
) -> None:
    """So are two of one name, before and after a restart: another id."""
    names = ["init", "sidecar", "debugger-x7", "main", "main"]
    ids = [f"{number:064x}" for number in range(5)]
    server.lists(
        [container(each, name=name) for each, name in zip(ids, names, strict=True)], [sandbox()]
    )

    records = runtime.records({*ids})

    assert [(each, records[each].name) for each in ids] == list(zip(ids, names, strict=True))


def test_a_pod_that_is_deleted_while_we_look_keeps_its_names(
    server: Server, runtime: Runtime
) -> None:
    """Its container is in the first list and its sandbox no more in the second."""
    server.lists([container()], [])

    assert runtime.records(PODS_TOO) == {ID: FULL}


def test_what_cri_o_lists_is_the_same(server: Server, runtime: Runtime) -> None:
    """From CRI-O's source, not run: server/container_list.go, internal/oci/container.go.

    Containers have the kubelet's labels and their sandbox's id; sandboxes the pod's own labels,
    and that of a container name, `POD`. A container that is still being made is left out.
    """
    pod = cri_pb2.PodSandbox(
        id=SANDBOX,
        metadata=METADATA,
        labels={**LABELS, "app": "trainer", "io.kubernetes.container.name": "POD"},
    )
    server.lists([container()], [pod])

    assert runtime.records(PODS_TOO) == {ID: FULL, SANDBOX: POD}


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

    assert runtime.records(PODS_TOO) == {ID: ContainerRecord(ID, False, "main", None, "x", None)}


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

    records = runtime.records(PODS_TOO)

    assert (records[ID], records[SANDBOX]) == (FULL, POD)
    assert records[bare] == ContainerRecord(bare, False, "label", "label", "label", "label")
    assert records["6" * 64] == ContainerRecord("6" * 64, True, None, "trainer-0", "ml", UID)


def test_what_is_empty_is_absent(server: Server, runtime: Runtime) -> None:
    """`crictl runp` sets no labels: names are None, never empty."""
    labels = {"io.kubernetes.pod.name": "", "io.kubernetes.container.name": ""}
    server.lists(
        [cri_pb2.Container(id=ID, labels=labels)], [cri_pb2.PodSandbox(id=SANDBOX, labels=labels)]
    )

    assert runtime.records(PODS_TOO) == {
        ID: ContainerRecord(ID, False, None, None, None, None),
        SANDBOX: ContainerRecord(SANDBOX, True, None, None, None, None),
    }


def test_a_bad_record_costs_only_itself(server: Server, runtime: Runtime) -> None:
    """Records without an id, or with one that came before, are counted and passed over."""
    server.lists(
        [container(), container(""), container(name="twin"), container(SANDBOX)],
        [sandbox(), cri_pb2.PodSandbox(metadata=METADATA)],
    )

    assert runtime.records(PODS_TOO) == {ID: FULL, SANDBOX: POD}
    assert runtime.bad_records == 4


def test_a_node_without_containers_has_none(server: Server, runtime: Runtime) -> None:
    """Two empty lists are an answer."""
    server.lists([], [])

    assert runtime.records(PODS_TOO) == {}


def test_ten_thousand_containers_fit(server: Server, runtime: Runtime) -> None:
    """A list that outgrows gRPC's usual 4 MiB arrives whole."""
    each = [container(f"{number:064x}") for number in range(10_000)]
    for one in each:
        one.labels["filler"] = "x" * 400
    server.lists(each, [sandbox()])
    assert len(server.answers["ListContainers"](None)) > 4 << 20  # type: ignore[arg-type]

    assert len(runtime.records(PODS_TOO)) == 10_001


def test_a_runtime_that_hangs_costs_the_deadline(server: Server) -> None:
    """No answer within the deadline is an error, not a wait for ever."""
    done = threading.Event()
    server.answers = {"ListContainers": lambda _: bytes(done.wait(30))}
    told: list[Request] = []
    runtime = Runtime(f"unix://{server.path}", timeout_s=0.2, on_request=told.append)

    with pytest.raises(RuntimeUnavailable, match=r"ListContainers: DEADLINE_EXCEEDED"):
        runtime.records(PODS_TOO)

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
        runtime.records(PODS_TOO)
    assert [each.error for each in requests] == ["malformed"]


def test_a_runtime_without_its_cri_plugin_says_so(server: Server, runtime: Runtime) -> None:
    """UNIMPLEMENTED is told in words: that is all one sees of a CRI plugin that did not load."""
    with pytest.raises(RuntimeUnavailable) as raised:
        runtime.records(PODS_TOO)

    assert str(raised.value) == f"unix://{server.path}: ListContainers: it does not serve CRI v1"
    assert "CRI plugin is loaded" in raised.value.hint


def test_half_an_answer_is_none(server: Server, runtime: Runtime, requests: list[Request]) -> None:
    """Containers without sandboxes would make sandboxes look like containers of nobody."""
    server.lists([container()], [])
    del server.answers["ListPodSandbox"]

    with pytest.raises(RuntimeUnavailable, match="ListPodSandbox"):
        runtime.records(PODS_TOO)
    assert [each.error for each in requests] == ["", "UNIMPLEMENTED"]


def test_no_runtime_is_an_error_at_once(tmp_path: Path) -> None:
    """A socket that is not there does not take the deadline's time."""
    runtime = Runtime(str(tmp_path / "none.sock"), timeout_s=30)

    with pytest.raises(RuntimeUnavailable, match="ListContainers: UNAVAILABLE"):
        runtime.records(PODS_TOO)
    runtime.close()


def test_a_runtime_that_comes_back_is_found_again(tmp_path: Path) -> None:
    """After a restart of the runtime, the next questions get their answers."""
    first = Server(tmp_path / SOCKET)
    first.lists([container()], [])
    runtime = Runtime(str(first.path), timeout_s=5)
    assert runtime.records(PODS_TOO)
    first.stop()
    with pytest.raises(RuntimeUnavailable):
        runtime.records(PODS_TOO)

    second = Server(tmp_path / SOCKET)
    second.lists([container()], [sandbox()])
    for _ in range(100):
        try:
            records = runtime.records(PODS_TOO)
            break
        except RuntimeUnavailable:
            threading.Event().wait(0.1)
    assert records == {ID: FULL, SANDBOX: POD}
    runtime.close()
    second.stop()
