# SPDX-License-Identifier: Apache-2.0
"""Containers are born and die, also while no agent runs: each keeps its calls, and its names.

XPUMETER_LONG makes it ten times as many real containers, and five times as many made-up ones.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lab.agent import Agent
from lab.pods import (
    Container,
    ContainerSpec,
    Pod,
    PodSpec,
    counted,
    remove_pods,
    run_pods,
    workload,
)
from lab.vm import VIRTIO_GPU, Vm
from otlp_sink import Sink, adding_up

pytestmark = pytest.mark.vm

LONG = bool(os.environ.get("XPUMETER_LONG"))
REAL, MADE_UP = (300, 10_000) if LONG else (30, 2_000)
DOWN = MADE_UP // 10
"""Of the made-up ones, those that come while no agent runs."""

DEVICES = {"/dev/dri/card0": VIRTIO_GPU, "/dev/dri/card2": "vgem"}
ARRIVAL_S = 900 if LONG else 180  # busy: 45 s for 2,000
KNOWN_S = 3
"""One on a host; the guest is emulated, and shares the machine with everything that tests it."""

CROWD_LIMIT_S = 1800 if LONG else 600  # busy: 50 s for 2,000

TOTALS = """
import json
from pathlib import Path
from xpumeter.source.pins import Pins
pins = Pins(Path("/sys/fs/bpf/xpumeter"))
names = {each.incarnation: each.name for each in pins.devices()}
print(json.dumps({names[each.device]: each.returns for each in pins.read().totals if each.returns}))
"""

Calls = dict[tuple[str, str, str, str], int]


@dataclass(frozen=True, slots=True)
class Churned:
    """What lived, and what was shown of it.

    `lived` came and went under an agent. While there was none `kept` and `gone` came, and only
    `gone` was removed before the next one started.
    """

    vm: Vm
    sink: Sink
    lived: tuple[Pod, ...]
    kept: tuple[Pod, ...]
    gone: tuple[Pod, ...]

    @property
    def containers(self) -> list[tuple[Pod, Container]]:
        """Real ones, with their pods."""
        pods = (*self.lived, *self.kept, *self.gone)
        return [(pod, each) for pod in pods for each in pod.containers]

    def made(self) -> Calls:
        """What the callers counted themselves."""
        calls = {
            (each.id, DEVICES[one.node], one.kind, one.error): one.calls
            for _, each in self.containers
            for one in counted(each.log)
        }
        for number in range(MADE_UP):
            calls[f"{number:064d}", "vgem", "other", ""] = number % 7 + 1
        return calls

    def names(self, pod: Pod, container: Container) -> dict[str, str]:
        """All that a series of this container can be called."""
        return {
            "k8s.namespace.name": pod.spec.namespace,
            "k8s.pod.name": pod.spec.name,
            "k8s.pod.uid": pod.spec.uid,
            "k8s.container.name": container.name,
            "container.id": container.id,
        }


def work(number: int, name: str = "main") -> ContainerSpec:
    """Calls whose numbers differ from container to container; then it is over."""
    some = number % 11 + 1
    node = sorted(DEVICES)[number % len(DEVICES)]
    return workload(node, f"alloc={some}", f"free={some}", "other=1", name=name)


def ten(number: int) -> tuple[list[PodSpec], PodSpec]:
    """Ten containers: five in one pod, one after the other, and four alone; one to go at once."""
    together = tuple(work(number + each, f"c{each}") for each in range(5))
    alone = [
        PodSpec("churn", f"brief-{number + each}", (work(number + each),)) for each in range(5)
    ]
    return [PodSpec("churn", f"busy-{number}", together), *alone[1:]], alone[0]


@pytest.fixture(scope="module")
def churned(vm: Vm) -> Iterator[Churned]:
    """All of them have come and gone, and what was counted has arrived."""
    with adding_up() as sink:
        agent = Agent(vm, sink.endpoint, interval="5s")
        agent.attach()
        try:
            agent.start()
            lived: list[Pod] = []
            for number in range(0, REAL - 10, 10):
                some, one = ten(number)
                lived += run_pods(vm, *some, remove=True)
                lived += run_pods(vm, one, remove=True)
            crowd(vm, 0, MADE_UP - DOWN)

            agent.kill()
            crowd(vm, MADE_UP - DOWN, DOWN)
            some, one = ten(REAL)
            kept = run_pods(vm, *some)
            gone = run_pods(vm, one, remove=True)
            agent.start()
            churned = Churned(vm, sink, tuple(lived), kept, gone)
            arrive(churned)
            yield churned
            remove_pods(vm, *kept)
            agent.stop()
        finally:
            agent.detach()


def crowd(vm: Vm, first: int, count: int) -> None:
    """So many made-up containers come and go, one after the other."""
    done = vm.run(f"crowd {first} {count} /dev/dri/card2", CROWD_LIMIT_S)
    assert done.rc == 0, done.output


def arrive(churned: Churned) -> None:
    """Return when all that was made was shown, or when the time is over."""
    made, end = churned.made(), time.monotonic() + ARRIVAL_S
    while churned.sink.calls().items() < made.items() and time.monotonic() < end:
        time.sleep(0.5)


def test_each_container_has_exactly_its_own_calls(churned: Churned) -> None:
    """Real and made up, brief or not, with an agent or without: what it made, and nobody else's."""
    made = churned.made()
    containers = {caller for caller, *_ in made}
    found = {key: calls for key, calls in churned.sink.calls().items() if key[0] in containers}

    assert len(containers) == REAL + MADE_UP
    assert found == made


def test_conservation_is_exact(churned: Churned) -> None:
    """Everything shown, of whomever, adds up to what the kernel counted for each device."""
    (churned.vm.work / "totals.py").write_text(TOTALS)
    done = churned.vm.run('PYTHONPATH="$XPUMETER_APP:/opt/site" python3 /vm/totals.py')
    assert done.rc == 0, done.output

    assert churned.sink.by_device() == json.loads(done.output)


def test_none_is_unnamed_that_the_runtime_knew(churned: Churned) -> None:
    """Whoever was in its lists for a while after the last call has every name."""
    known = []
    for pod in churned.lived:
        assert pod.removed_ns is not None
        limit_ns = pod.removed_ns - KNOWN_S * 10**9
        known += [(pod, each) for each in pod.containers if each.finished_ns <= limit_ns]
    unnamed = [
        (pod.removed_ns or 0) - each.finished_ns
        for pod in churned.lived
        for each in pod.containers
        if churned.sink.names[each.id] != churned.names(pod, each)
    ]
    print(
        f"of {REAL - 10} containers {len(known)} were known for {KNOWN_S} s; unnamed are those that"
        f" were known for {[f'{each / 1e9:.1f} s' for each in sorted(unnamed)]}"
    )

    assert len(known) >= (REAL - 10) // 3
    for pod, each in known:
        assert churned.sink.names[each.id] == churned.names(pod, each)


def test_what_is_gone_too_soon_keeps_uid_and_id(churned: Churned) -> None:
    """No name is made up, and none of the kernel's is lost."""
    for pod, each in churned.containers:
        names = churned.sink.names[each.id]
        assert names.items() <= churned.names(pod, each).items()
        assert (names["container.id"], names["k8s.pod.uid"]) == (each.id, pod.spec.uid)
    for number in range(MADE_UP):
        assert churned.sink.names[f"{number:064d}"] == {
            "container.id": f"{number:064d}",
            "k8s.pod.uid": f"00000000-0000-0000-0000-{number // 10:012d}",
        }


def test_an_agent_that_was_down_names_whom_the_runtime_still_lists(churned: Churned) -> None:
    """Exited is enough; whose pod was removed meanwhile has pod uid and container id."""
    for pod in churned.kept:
        for each in pod.containers:
            assert churned.sink.names[each.id] == churned.names(pod, each)
    for pod in churned.gone:
        for each in pod.containers:
            assert churned.sink.names[each.id].keys() == {"container.id", "k8s.pod.uid"}
