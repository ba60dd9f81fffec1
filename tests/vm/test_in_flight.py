# SPDX-License-Identifier: Apache-2.0
"""A call that does not return is seen while it hangs, by name, and is gone when its task is."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from lab.agent import Agent
from lab.collector import Collector, Sample
from lab.pods import PodSpec, remove_pods, run_pods, workload
from lab.vm import VIRTIO_GPU, Vm

pytestmark = pytest.mark.vm

ARRIVAL_S = 60
ACTIVE, OLDEST = "xpumeter_call_active", "xpumeter_call_oldest_seconds"
CALLS = "xpumeter_calls_total"
GPU = "/dev/dri/card0"

OPEN = """
from pathlib import Path
from xpumeter.source.pins import Pins
print(len(Pins(Path("/sys/fs/bpf/xpumeter")).read().open))
"""


@pytest.fixture(scope="module")
def collector(
    vm: Vm,
    otelcol_program: Path,
    prometheus_config: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Collector]:
    """An agent counts, and this is where it exports to."""
    assert vm.run("sysctl -w vm.unprivileged_userfaultfd=1").rc == 0
    (vm.work / "open.py").write_text(OPEN)
    folder = tmp_path_factory.mktemp("collector")
    with Collector(otelcol_program, prometheus_config, folder) as running:
        agent = Agent(vm, running.otlp_endpoint)
        agent.attach()
        try:
            agent.start()
            yield running
            agent.stop()
        finally:
            agent.detach()


def until(
    collector: Collector, owner: str, arrived: Callable[[Mapping[str, float]], bool]
) -> Sequence[Sample]:
    """Samples of a pod or service once they are as expected, or as they are at the end."""
    end = time.monotonic() + ARRIVAL_S
    while True:
        labels = ("k8s_pod_name", "process_linux_cgroup")
        samples = [
            each
            for each in collector.scrape()
            if owner in (each.labels.get(label) for label in labels)
        ]
        if arrived(values(samples)) or time.monotonic() > end:
            return samples
        time.sleep(0.2)


def values(samples: Sequence[Sample]) -> dict[str, float]:
    """By name of the metric: here each has one series."""
    return {each.name: each.value for each in samples}


def test_a_hung_device_shows_with_all_names_though_no_call_ever_returned(
    vm: Vm, collector: Collector
) -> None:
    """One call in flight, whose age grows with the clock; killed, it is counted and not active."""
    spec = PodSpec("ml", "hung", (workload("--hang", GPU),))
    (pod,) = run_pods(vm, spec, wait=False)

    began_s = time.monotonic()
    first = until(collector, "hung", lambda now: OLDEST in now)
    age_s = values(first)[OLDEST]
    later = until(collector, "hung", lambda now: now[OLDEST] > age_s + 3)
    waited_s = time.monotonic() - began_s

    assert {each.name for each in first} == {ACTIVE, OLDEST}
    assert values(first)[ACTIVE] == values(later)[ACTIVE] == 1
    assert age_s + 3 < values(later)[OLDEST] < age_s + waited_s + 3
    for sample in first:
        labels = sample.labels
        assert labels["k8s_namespace_name"] == "ml"
        assert labels["k8s_container_name"] == "main"
        assert labels["k8s_pod_uid"] == spec.uid
        assert labels["container_id"] == pod.containers[0].id
        assert (labels["hw_id"], labels["xpumeter_driver"]) == (VIRTIO_GPU, "virtio_gpu")
        assert labels["xpumeter_call_kind"] == "wait"

    remove_pods(vm, pod)
    (*after,) = until(collector, "hung", lambda now: now.get(CALLS) == 1)
    assert values(after)[ACTIVE] == 0
    assert OLDEST not in values(after)
    assert [each.labels["error_type"] for each in after if each.name == CALLS] == ["EFAULT"]


def test_a_task_that_is_killed_in_a_call_leaves_no_ghost(vm: Vm, collector: Collector) -> None:
    """Two of a service's three hung tasks are killed: one call is in flight, and then none."""
    place = "/sys/fs/cgroup/media.service"
    jobs = [
        vm.start(f"mkdir -p {place} && echo 0 > {place}/cgroup.procs && exec workload --hang {GPU}")
        for _ in range(3)
    ]
    service = "/media.service"
    assert until(collector, service, lambda now: now.get(ACTIVE) == 3)

    for job in jobs[:2]:
        job.signal("KILL")
    one = values(until(collector, service, lambda now: now[ACTIVE] == 1))
    jobs[2].signal("KILL")
    none = values(until(collector, service, lambda now: now[ACTIVE] == 0))

    assert (one[ACTIVE], one[CALLS]) == (1, 2)
    assert one[OLDEST] > 0
    assert (none[ACTIVE], none[CALLS]) == (0, 3)
    assert OLDEST not in none
    counted = vm.run('PYTHONPATH="$XPUMETER_APP:/opt/site" python3 /vm/open.py')
    assert counted.output.split() == ["0"]
