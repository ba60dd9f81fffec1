# SPDX-License-Identifier: Apache-2.0
"""Which of the usual sockets is taken, on hosts with several runtimes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fake_runtime import FULL, ID, Server, container, serving
from xpumeter.errors import RuntimeUnavailable
from xpumeter.source.cri import SOCKETS, Runtime, find_endpoints

CONTAINERD, K3S, CRIO = SOCKETS[:3]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What is to be ended with the test."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def runtime(tmp_path: Path, stack: ExitStack) -> Runtime:
    """Ours, which looks below the test's folder."""
    runtime = Runtime(timeout_s=0.5, root=tmp_path)
    stack.callback(runtime.close)
    return runtime


def test_only_sockets_are_endpoints(tmp_path: Path, stack: ExitStack) -> None:
    """In the order of SOCKETS; a file or a folder in the place of a socket is none."""
    assert find_endpoints(tmp_path) == []
    (tmp_path / CONTAINERD).mkdir(parents=True)
    for each in (CRIO, K3S):
        stack.enter_context(serving(tmp_path / each))

    assert find_endpoints(tmp_path) == [f"unix://{tmp_path}/{each}" for each in (K3S, CRIO)]


def test_the_usual_places_are_those_of_each_distribution() -> None:
    """containerd, k3s and rke2, CRI-O, cri-dockerd, microk8s, k0s."""
    assert SOCKETS == (
        "run/containerd/containerd.sock",
        "run/k3s/containerd/containerd.sock",
        "run/crio/crio.sock",
        "run/cri-dockerd.sock",
        "var/snap/microk8s/common/run/containerd.sock",
        "run/k0s/containerd.sock",
    )


def silent(server: Server) -> None:
    """Docker's containerd: its CRI plugin is switched off."""


def empty(server: Server) -> None:
    """A containerd that no kubelet uses."""
    server.lists([], [])


def stale(server: Server) -> None:
    """A containerd that the kubelet has left, with what was there then."""
    server.lists([container("0" * 64)], [])


def nonsense(server: Server) -> None:
    """Something that is no CRI."""
    server.answers = {"ListContainers": lambda _: b"\xff" * 40}


@pytest.mark.parametrize("other", [silent, empty, stale, nonsense])
def test_the_runtime_that_has_the_container_is_taken(
    tmp_path: Path,
    stack: ExitStack,
    runtime: Runtime,
    other: Callable[[Server], None],
) -> None:
    """Not the first that exists: k3s has a containerd of its own beside that of a package."""
    other(stack.enter_context(serving(tmp_path / CONTAINERD)))
    k3s = stack.enter_context(serving(tmp_path / K3S))
    k3s.lists([container()], [])

    assert runtime.records({ID}) == {ID: FULL}
    assert runtime.records({ID}) == {ID: FULL}
    assert runtime.lists == 1  # chosen once


def test_a_choice_that_goes_away_is_made_anew(
    tmp_path: Path, stack: ExitStack, runtime: Runtime
) -> None:
    """The node's runtime is exchanged under the agent: the next question finds the other one."""
    with serving(tmp_path / CONTAINERD) as first:
        first.lists([container()], [])
        assert runtime.records({ID})
    second = stack.enter_context(serving(tmp_path / CRIO))
    second.lists([container()], [])

    with pytest.raises(RuntimeUnavailable):
        runtime.records({ID})

    assert runtime.records({ID}) == {ID: FULL}


def test_a_choice_without_containers_is_none(
    tmp_path: Path, stack: ExitStack, runtime: Runtime
) -> None:
    """All pods of the first are gone, the other one has some: a runtime is what has pods."""
    first, second = (stack.enter_context(serving(tmp_path / each)) for each in (CONTAINERD, K3S))
    first.lists([container()], [])
    second.lists([], [])
    assert runtime.records({ID})

    first.lists([], [])
    assert runtime.records({ID}) == {}
    second.lists([container()], [])

    assert runtime.records({ID}) == {ID: FULL}


def test_who_is_nowhere_listed_hides_nobody(
    tmp_path: Path, stack: ExitStack, runtime: Runtime
) -> None:
    """Docker's container is in no list: what the others have is there all the same."""
    for each in (CONTAINERD, K3S):
        server = stack.enter_context(serving(tmp_path / each))
        server.lists([container()] if each == K3S else [], [])

    for _ in range(2):
        assert runtime.records({"d" * 64}) == {ID: FULL}


def test_no_socket_at_all_names_those_that_were_tried(tmp_path: Path, runtime: Runtime) -> None:
    """The reader sees that theirs is not among them, and which key names it."""
    with pytest.raises(RuntimeUnavailable) as raised:
        runtime.records({ID})

    places = ", ".join(f"{tmp_path}/{each}" for each in SOCKETS)
    assert str(raised.value) == f"no container runtime: no socket at {places}"
    assert "receivers.xpumeter.runtime_endpoint" in raised.value.hint
    assert runtime.lists == 0


def test_each_socket_that_refuses_is_named(
    tmp_path: Path, stack: ExitStack, runtime: Runtime
) -> None:
    """With its reason; the socket of a runtime that has died is one of them."""
    stack.enter_context(serving(tmp_path / CONTAINERD))
    with serving(tmp_path / CRIO) as dead:
        (tmp_path / CRIO).rename(tmp_path / "kept")
    (tmp_path / "kept").rename(tmp_path / CRIO)
    assert dead.asked == []

    with pytest.raises(RuntimeUnavailable) as raised:
        runtime.records({ID})

    first, second = (f"unix://{tmp_path}/{each}: ListContainers: " for each in (CONTAINERD, CRIO))
    assert str(raised.value).startswith(f"{first}it does not serve CRI v1; {second}UNAVAILABLE")
