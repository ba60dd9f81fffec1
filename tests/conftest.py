# SPDX-License-Identifier: Apache-2.0
"""What more than one layer stands on."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from lab.cache import Cache, cache_root
from lab.errors import LabError
from lab.otelcol import PINNED, otelcol
from lab.prometheus import Prometheus, prometheus
from lab.require import cannot_run

# In CI the same examples each time: a change is judged by what it changes. Elsewhere new ones.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=5000, deadline=None)
settings.register_profile("default", deadline=None)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default")
)


@pytest.fixture(scope="session")
def otelcol_program() -> Path:
    """The real Collector, built from otel-collector/ once."""
    try:
        return otelcol(Cache(cache_root()))
    except LabError as error:
        cannot_run("collector", error)


@pytest.fixture(scope="session")
def prometheus_tools() -> Prometheus:
    """Prometheus and promtool, from Debian's package."""
    try:
        return prometheus(Cache(cache_root()))
    except LabError as error:
        cannot_run("collector", error)


@pytest.fixture(scope="session")
def prometheus_config() -> Path:
    """The Collector's file that we ship."""
    return PINNED / "prometheus.yaml"
