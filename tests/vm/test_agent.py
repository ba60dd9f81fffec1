# SPDX-License-Identifier: Apache-2.0
"""A real kernel counts the calls of real containers; what arrives equals what they made."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab import scenario
from lab.agent import PID, Agent
from lab.collector import Collector, Sample
from lab.pods import PodSpec, remove_pods, run_pods, workload
from lab.scenario import Key, Work
from lab.vm import QXL, VIRTIO_GPU, Vm

pytestmark = pytest.mark.vm

ARRIVAL_S = 60  # quiet: 2 s
END_S = 120  # a minute of linger, then two exports
RSS_LIMIT_MIB = 60


@dataclass(frozen=True, slots=True)
class Counted:
    """An agent that counts, and the work that was done under it."""

    agent: Agent
    collector: Collector
    work: Work

    def until(
        self, arrived: Callable[[Sequence[Sample]], bool], limit_s: float = ARRIVAL_S
    ) -> Sequence[Sample]:
        """Samples once they are as expected, or as they are when the time is over."""
        end = time.monotonic() + limit_s
        while True:
            samples = self.collector.scrape()
            if arrived(samples) or time.monotonic() > end:
                return samples
            time.sleep(0.2)


@pytest.fixture(scope="module")
def run(
    vm: Vm,
    otelcol_program: Path,
    prometheus_config: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Counted]:
    """Attached, running without capabilities; three pods and a service did their work."""
    folder = tmp_path_factory.mktemp("collector")
    with Collector(otelcol_program, prometheus_config, folder) as collector:
        agent = Agent(vm, collector.otlp_endpoint)
        agent.attach()
        try:
            agent.start()
            work = scenario.do_work(vm)
            yield Counted(agent, collector, work)
            remove_pods(vm, *work.pods)
            agent.stop()
        finally:
            agent.detach()


def calls_of(samples: Sequence[Sample], owner: str) -> dict[Key, int]:
    """Calls of one pod or service."""
    return {key: calls for key, calls in scenario.shown(samples).items() if key.owner == owner}


def test_every_call_is_counted_and_named(run: Counted) -> None:
    """For each owner, device, kind and outcome exactly what the caller counted; nothing else."""
    samples = run.until(lambda now: not scenario.differences(run.work.calls, scenario.shown(now)))

    assert scenario.differences(run.work.calls, scenario.shown(samples)) == []
    assert scenario.unattributed(samples) == 0
    assert sum(run.work.calls.values()) > 900


def test_all_kinds_and_a_failure_were_among_them(run: Counted) -> None:
    """What the promise above was tried with."""
    seen = {(key.device, key.kind, key.error) for key in run.work.calls}

    assert {kind for _, kind, _ in seen} == {"submit", "alloc", "free", "wait", "other"}
    assert (QXL, "submit", "") in seen
    assert (VIRTIO_GPU, "submit", "ENOSYS") in seen
    assert all(not error for device, _, error in seen if device == "vgem")


def test_a_series_has_all_names_of_its_pod(run: Counted) -> None:
    """Namespace, pod, uid, container, id; device, driver; also of the one that lived a moment."""
    samples = run.collector.scrape()

    names = ("k8s_namespace_name", "k8s_pod_name", "k8s_pod_uid", "k8s_container_name")
    found = {
        tuple(each.labels.get(name) for name in (*names, "container_id"))
        for each in samples
        if "k8s_pod_name" in each.labels
    }
    assert found == {
        (pod.spec.namespace, pod.spec.name, pod.spec.uid, "main", pod.containers[0].id)
        for pod in run.work.pods
    }


def test_time_is_that_of_the_calls(run: Counted) -> None:
    """More than nothing, and no more than the callers waited themselves."""
    samples = run.collector.scrape()
    times = {scenario.key_of(each): each.value for each in samples if each.name == scenario.TIME}

    waited: dict[Key, int] = {}
    for key, time_ns in run.work.time_ns.items():
        kind = replace(key, error="")
        waited[kind] = waited.get(kind, 0) + time_ns
    assert times.keys() == waited.keys()
    for key, time_s in times.items():
        assert 0 < time_s * 1e9 <= waited[key]


def test_the_agent_has_no_capability_and_wakes_on_events(run: Counted) -> None:
    """Every set is empty, and still the ring is open."""
    assert run.agent.footprint().capabilities == 0
    assert "event=no_ring" not in run.agent.log


def test_no_device_node_is_ever_opened(run: Counted, vm: Vm) -> None:
    """An open node would keep a driver from being unbound, and could wake a device."""
    files = vm.run(f"ls -l /proc/$(cat {PID})/fd").output

    assert "socket:" in files
    assert "/dev/dri" not in files


def test_the_agent_finds_no_call_missing(run: Counted) -> None:
    """It compares rows and totals itself, and says so on its own Resource."""
    run.until(lambda now: any(each.name == "xpumeter_call_missing" for each in now))
    found = {each.name: each.value for each in run.collector.scrape() if "job" in each.labels}

    assert found["xpumeter_call_missing"] == 0
    assert found["xpumeter_call_refused_total"] == 0


def test_a_hundred_series_fit(run: Counted, vm: Vm) -> None:
    """Twenty more services, three kinds each, with all they have: memory stays in its bounds."""
    made = vm.run(
        "for i in $(seq 20); do\n"
        "  mkdir -p /sys/fs/cgroup/many.slice/m$i.service\n"
        "  sh -c 'echo 0 > /sys/fs/cgroup/many.slice/m'$i'.service/cgroup.procs;"
        " exec workload /dev/dri/card2 alloc=1 free=1 other=1'\n"
        "done",
        120,
    )
    assert made.rc == 0

    def many(now: Sequence[Sample]) -> list[Sample]:
        return [each for each in now if "/many." in each.labels.get("process_linux_cgroup", "")]

    samples = run.until(lambda now: len(many(now)) == 180)

    assert [each.value for each in many(samples) if each.name == scenario.CALLS] == [1] * 60
    series = [each for each in samples if each.name in scenario.OF_A_KIND]
    footprint = run.agent.footprint()
    print(f"agent: {footprint.rss_mib:.1f} MiB with {len(series)} series")
    assert footprint.rss_mib < RSS_LIMIT_MIB


def test_the_agent_s_cpu_does_not_grow_with_the_calls(run: Counted, vm: Vm) -> None:
    """A million calls cost it no more than ten thousand in the same time."""

    def spend(calls: int, at_least_s: float = 0) -> tuple[float, float]:
        """CPU seconds of the agent while the calls are made, and how long that was."""
        before_s, began_s = run.agent.footprint().cpu_s, time.monotonic()
        assert vm.run(f"workload --speed {calls} /dev/dri/card2", 300).rc == 0
        time.sleep(max(0.0, began_s + at_least_s - time.monotonic()))
        return run.agent.footprint().cpu_s - before_s, time.monotonic() - began_s

    of_many_s, window_s = spend(1_000_000)
    of_few_s, _ = spend(10_000, at_least_s=window_s)
    samples = run.until(lambda now: list(calls_of(now, "/").values()) == [1_010_000])

    print(f"agent's CPU in {window_s:.0f} s: {of_many_s} s of 1 M, {of_few_s} s of 10 k calls")
    assert list(calls_of(samples, "/").values()) == [1_010_000]
    assert of_many_s <= 2 * of_few_s + 0.5


def test_systemd_s_spelling_names_the_same_container(run: Counted, vm: Vm) -> None:
    """As the systemd driver would call its cgroup: the same container, the same series."""
    (loader,) = (pod for pod in run.work.pods if pod.spec.name == "loader")
    slice_name = f"kubepods-besteffort-pod{loader.spec.uid.replace('-', '_')}.slice"
    scope = f"cri-containerd-{loader.containers[0].id}.scope"
    cgroup = f"/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/{slice_name}/{scope}"
    made = vm.run(
        f"mkdir -p {cgroup} && sh -c 'echo 0 > {cgroup}/cgroup.procs;"
        f" exec workload /dev/dri/card2 alloc=4' && rmdir {cgroup}"
    )
    assert made.rc == 0, made.output

    samples = run.until(lambda now: sum(calls_of(now, "loader").values()) == 415)

    assert {key.kind: calls for key, calls in calls_of(samples, "loader").items()} == {
        "alloc": 204,
        "free": 200,
        "other": 11,
    }


def test_a_container_that_ended_ends_its_series(run: Counted) -> None:
    """Its last value stays for a minute, for scrapes; then the series is gone."""
    samples = run.until(lambda now: not calls_of(now, "thumbnail-7"), END_S)

    assert calls_of(samples, "thumbnail-7") == {}


def test_a_killed_agent_loses_nothing(run: Counted, vm: Vm) -> None:
    """The kernel counts on; the next agent has every call, and the name of a pod that is gone."""
    spec = PodSpec("ml", "survivor", (workload("/dev/dri/card0", "alloc=5", "free=5", "other=1"),))
    again = replace(spec, name="meanwhile")
    before = run_pods(vm, spec)
    assert run.until(lambda now: len(calls_of(now, "survivor")) == 3)

    run.agent.kill()
    remove_pods(vm, *before)
    meanwhile = run_pods(vm, again)
    run.agent.start()
    samples = run.until(lambda now: len(calls_of(now, "meanwhile")) == 3)
    remove_pods(vm, *meanwhile)

    for name in ("survivor", "meanwhile"):
        assert sorted(calls_of(samples, name).values()) == [1, 5, 5]
    assert not [
        each
        for each in samples
        if each.name == scenario.CALLS and "container_id" in each.labels
        if "k8s_pod_name" not in each.labels
    ]
