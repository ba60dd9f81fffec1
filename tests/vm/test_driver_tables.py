# SPDX-License-Identifier: Apache-2.0
"""A driver table that is mounted into a running host: what it changes, and what it must not."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import scenario
from lab.agent import Agent
from lab.collector import Collector
from lab.vm import Vm

pytestmark = pytest.mark.vm

SERVICE = "/tables.slice/one.service"
ARRIVAL_S = 60  # quiet: 2 s

# vgem's only allocation, called something else: whoever does so has reasons.
TABLE = """\
driver: vgem
extends: vgem
calls:
  - {name: DRM_IOCTL_MODE_CREATE_DUMB, nr: 0xb2, kind: submit, header: drm/drm.h}
"""


def call(vm: Vm, allocations: int) -> None:
    """A service makes buffers with vgem and gives none back."""
    cgroup = f"/sys/fs/cgroup{SERVICE}"
    made = vm.run(
        f"mkdir -p {cgroup} && sh -c 'echo 0 > {cgroup}/cgroup.procs;"
        f" exec workload /dev/dri/card2 alloc={allocations}'"
    )
    assert made.rc == 0, made.output


def test_a_mounted_table_counts_from_its_load_on(
    vm: Vm,
    otelcol_program: Path,
    prometheus_config: Path,
    tmp_path: Path,
) -> None:
    """Seven allocations stay what they were, also the three while no agent ran; two are submits."""
    with Collector(otelcol_program, prometheus_config, tmp_path) as collector:

        def by_kind() -> dict[str, int]:
            shown = scenario.shown(collector.scrape())
            mine = {key.kind: calls for key, calls in shown.items() if key.owner == SERVICE}
            mine.pop("other", None)  # each workload asks for the driver's version first
            return mine

        def until(condition: Callable[[dict[str, int]], bool]) -> dict[str, int]:
            end = time.monotonic() + ARRIVAL_S
            while not condition(now := by_kind()) and time.monotonic() < end:
                time.sleep(0.2)
            return now

        agent = Agent(vm, collector.otlp_endpoint)
        agent.attach()
        try:
            agent.start()
            call(vm, 4)
            assert until(lambda now: now == {"alloc": 4}) == {"alloc": 4}
            agent.stop()
            call(vm, 3)

            (vm.work / "vgem.yaml").write_text(TABLE)
            configuration = json.loads((vm.work / "xpumeter.yaml").read_text())
            configuration["receivers"]["xpumeter"]["driver_tables"] = ["/vm/vgem.yaml"]
            (vm.work / "xpumeter.yaml").write_text(json.dumps(configuration))
            agent.start()
            assert until(lambda now: now == {"alloc": 7}) == {"alloc": 7}
            call(vm, 2)
            assert until(lambda now: "submit" in now) == {"alloc": 7, "submit": 2}
            agent.stop()
        finally:
            agent.detach()
