# SPDX-License-Identifier: Apache-2.0
"""A board without a Collector: attached, counted, scraped; what probes are told meanwhile."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from lab.collector import Sample, parse
from lab.job import Job
from lab.vm import Vm

pytestmark = pytest.mark.vm

EDGE = Path(__file__).parents[2] / "config/edge.yaml"
LIMIT_S = 60
PAGE = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def board(vm: Vm) -> Iterator[Job]:
    """`xpumeter run` with the shipped file, each second instead of each minute, no capabilities."""
    settings = yaml.safe_load(EDGE.read_text())
    settings["receivers"]["xpumeter"]["collection_interval"] = "1s"
    (vm.work / "edge.yaml").write_text(yaml.safe_dump(settings))
    assert vm.run("xpumeter attach").rc == 0
    job = vm.start(
        "exec /usr/bin/setpriv --bounding-set=-all --inh-caps=-all --no-new-privs"
        " xpumeter run --config /vm/edge.yaml"
    )
    try:
        yield job
    finally:
        if job.running:
            job.signal("TERM")
            job.wait(30)
        vm.run("xpumeter detach")


def get(vm: Vm, path: str) -> str:
    """A page, as the guest's own wget sees it; empty with any status but 200."""
    done = vm.run(f"wget -q -O - {PAGE}{path}")
    return done.output if done.rc == 0 else ""


def until(vm: Vm, wanted: str) -> Sequence[Sample]:
    """Samples once one of them has this text in its labels."""
    end = time.monotonic() + LIMIT_S
    while True:
        samples = parse(get(vm, "/metrics"))
        if any(wanted in each.labels.values() for each in samples):
            return samples
        assert time.monotonic() < end, samples
        time.sleep(0.5)


def test_a_scrape_has_every_call(vm: Vm, board: Job) -> None:
    """Exactly what the service did, under its cgroup, with nothing but a socket to ask."""
    made = vm.run(
        "mkdir -p /sys/fs/cgroup/board.service\n"
        "sh -c 'echo 0 > /sys/fs/cgroup/board.service/cgroup.procs;"
        " exec workload /dev/dri/card2 alloc=5 free=5 other=1'"
    )
    assert made.rc == 0, made.output

    samples = until(vm, "/board.service")

    calls = {
        each.labels["xpumeter_call_kind"]: each.value
        for each in samples
        if each.name == "xpumeter_calls_total"
        if each.labels.get("process_linux_cgroup") == "/board.service"
    }
    assert calls == {"alloc": 5, "free": 5, "other": 1}


def test_probes_are_answered(vm: Vm, board: Job) -> None:
    """On the same listener, by an agent without capabilities."""
    assert get(vm, "/healthz") == get(vm, "/readyz") == "OK\n"


def test_what_the_kernel_left_out_is_known_without_capabilities(vm: Vm, board: Job) -> None:
    """The pins are this user's and bpf(2) is open to it: each program tells, and tells none."""
    missed = {
        each.labels["xpumeter_program"]: each.value
        for each in parse(get(vm, "/metrics"))
        if each.name == "xpumeter_program_missed_total"
    }

    assert missed.keys() >= {"entry_stub", "return_stub"}
    assert set(missed.values()) == {0}


def test_a_port_that_is_taken_is_one_error(vm: Vm, board: Job) -> None:
    """A second agent says what is wrong and ends; the first goes on."""
    second = vm.run("xpumeter run --config /vm/edge.yaml")

    assert second.rc == 69
    assert "extensions.health_check.endpoint: nobody can listen on *:8080" in second.output
    assert get(vm, "/healthz") == "OK\n"


def test_after_a_detach_the_agent_ends(vm: Vm, board: Job) -> None:
    """Nobody goes on showing counts that stand still: whoever restarts it begins anew."""
    assert vm.run("xpumeter detach").rc == 0

    assert board.wait(LIMIT_S).rc == 75
    assert get(vm, "/healthz") == ""
