# SPDX-License-Identifier: Apache-2.0
"""What more than one layer stands on."""

from pathlib import Path

import pytest

from lab.cache import Cache, cache_root
from lab.errors import LabError
from lab.otelcol import PINNED, otelcol
from lab.require import cannot_run


@pytest.fixture(scope="session")
def otelcol_program() -> Path:
    """The real Collector, built from otel-collector/ once."""
    try:
        return otelcol(Cache(cache_root()))
    except LabError as error:
        cannot_run("collector", error)


@pytest.fixture(scope="session")
def prometheus_config() -> Path:
    """The Collector's file that we ship."""
    return PINNED / "prometheus.yaml"
