# SPDX-License-Identifier: Apache-2.0
"""A service that is started again and again is one series, while its rows go and agents die."""

import random
import time
from pathlib import Path

import pytest

from lab import scenario
from lab.agent import Agent
from lab.collector import Collector
from lab.vm import Vm
from vm.guest import guest

pytestmark = pytest.mark.vm

SERVICE = "churn.service"
ROUNDS, LIVES, CALLS = 4, 20, 5
LIMIT_S = 90  # quiet: 8 s, of which 5 the kernel waits before it offers rows

CHURN = f"""
node = os.open(NODE, os.O_RDWR)
for _ in range({LIVES}):
    enter(CGROUPS / "{SERVICE}")
    for _ in range({CALLS}):
        call(node)
    leave()
    remove(CGROUPS / "{SERVICE}")
print(json.dumps(None))
"""

# Without the reader that offers: that is the agent's.
LEFT = """
from xpumeter.source import wire
rows = wire.Rows().decode((PINS / "rows").read_bytes())
print(json.dumps([len(rows), sum(row.calls for row in rows)]))
"""


def calls_of_service(collector: Collector) -> int:
    """As the Collector shows them."""
    shown = scenario.shown(collector.scrape())
    return sum(calls for key, calls in shown.items() if key.owner == f"/{SERVICE}")


def test_no_call_of_the_dead_is_lost_whenever_the_agent_is_killed(
    counting: Vm, otelcol_program: Path, prometheus_config: Path, tmp_path: Path
) -> None:
    """80 cgroups of one path, 5 calls each, 4 kills: no step back, 400 in the end, no row left."""
    chance = random.Random(15)  # noqa: S311
    seen = [0]
    with Collector(otelcol_program, prometheus_config, tmp_path) as collector:
        agent = Agent(counting, collector.otlp_endpoint)
        agent.start()
        for _ in range(ROUNDS):
            guest(counting, CHURN)
            # From before the rows are offered to after they are gone.
            end = time.monotonic() + chance.uniform(3, 9)
            while time.monotonic() < end:
                seen.append(calls_of_service(collector))
                time.sleep(0.2)
            agent.kill()
            agent.start()
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            seen.append(calls_of_service(collector))
            left = guest(counting, LEFT)
            if left == [0, 0] and seen[-1] == ROUNDS * LIVES * CALLS:
                break
        missing = [
            each.value for each in collector.scrape() if each.name == "xpumeter_call_missing"
        ]
        log = agent.stop()

    assert left == [0, 0]
    assert seen[-1] == ROUNDS * LIVES * CALLS
    assert seen == sorted(seen)
    # One from each agent: without a machine id each is an instance of its own.
    assert set(missing) == {0}
    assert "calls_missing" not in log
    assert "journal" not in log
