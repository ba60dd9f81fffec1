# SPDX-License-Identifier: Apache-2.0
"""A running Collector for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.collector import Collector


@pytest.fixture
def collector(
    otelcol_program: Path, prometheus_config: Path, tmp_path: Path
) -> Iterator[Collector]:
    """A fresh Collector, running with the file that we ship."""
    with Collector(otelcol_program, prometheus_config, tmp_path) as running:
        yield running
