# SPDX-License-Identifier: Apache-2.0
"""What an export costs, against the SDK's exporter on the same data, to the same real Collector."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.collector import Collector

pytestmark = pytest.mark.collector

TESTS = Path(__file__).parents[1]
SERIES = 10_000


def measure(way: str, collector: Collector) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, TESTS / "bench/export_cost.py", way, collector.otlp_endpoint, str(SERIES)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    print(f"\n{way}: " + ", ".join(f"{name} {value:.1f}" for name, value in found.items()), end="")
    return found


def test_an_export_costs_a_fraction_of_the_sdks(
    otelcol_program: Path, prometheus_config: Path, tmp_path: Path
) -> None:
    """CPU and memory per series, at 10,000 of them; no export fails.

    Ratios, since times on a shared machine mean little; docs/cost.md has both.
    """
    with Collector(otelcol_program, prometheus_config, tmp_path) as collector:
        ours, stock = measure("ours", collector), measure("stock", collector)

    assert ours["failed"] == stock["failed"] == 0
    assert ours["steady_us"] < stock["steady_us"] / 4
    # The aim is 5: with calls in flight a series has three points, and takes 7.
    assert ours["peak_kib"] < 8
