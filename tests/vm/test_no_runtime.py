# SPDX-License-Identifier: Apache-2.0
"""Without the runtime's socket: what a Collector gets, to complete it."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab import prepare, scenario
from lab.agent import Agent
from lab.collector import Collector, Sample
from lab.pods import PodSpec, remove_pods, run_pods, workload
from lab.vm import Vm

pytestmark = [
    pytest.mark.vm,
    # One kernel: what is left out is left out in user space.
    pytest.mark.parametrize("vm", prepare.metapackages()[:1], indirect=True),
]

ARRIVAL_S = 60
OWNER = ("k8s_pod_uid", "container_id", "k8s_namespace_name", "k8s_pod_name", "k8s_container_name")


def test_series_have_pod_uid_and_container_id(
    vm: Vm, otelcol_program: Path, prometheus_config: Path, tmp_path: Path
) -> None:
    """`runtime_endpoint: none`: the keys that a k8s_attributes processor asks for, and no name."""

    def shown(collector: Collector) -> Sequence[Sample]:
        return [each for each in collector.scrape() if each.name == scenario.CALLS]

    spec = PodSpec("ml", "unnamed", (workload("/dev/dri/card2", "alloc=3", "free=3", "other=1"),))
    with Collector(otelcol_program, prometheus_config, tmp_path) as collector:
        agent = Agent(vm, collector.otlp_endpoint, receiver={"runtime_endpoint": "none"})
        agent.attach()
        try:
            agent.start()
            (pod,) = run_pods(vm, spec)
            end = time.monotonic() + ARRIVAL_S
            while len(shown(collector)) < 3 and time.monotonic() < end:
                time.sleep(0.2)
            samples = shown(collector)
            remove_pods(vm, pod)
            agent.stop()
        finally:
            agent.detach()

    owners = {tuple(each.labels.get(name) for name in OWNER) for each in samples}
    assert owners == {(spec.uid, pod.containers[0].id, None, None, None)}
    assert sorted(each.value for each in samples) == [1, 3, 3]
