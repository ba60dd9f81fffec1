# SPDX-License-Identifier: Apache-2.0
"""The files for Collectors and Prometheus know every attribute that we send."""

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from xpumeter.export.catalog import DEVICE_ATTRIBUTES, HOST_ATTRIBUTES, OWNER_ATTRIBUTES

TOP = Path(__file__).parents[2]
ATTRIBUTES = [one.name for one in (*HOST_ATTRIBUTES, *DEVICE_ATTRIBUTES, *OWNER_ATTRIBUTES)]


def load(path: str) -> Any:
    return yaml.safe_load((TOP / path).read_text())


def test_prometheus_promotes_every_attribute_of_a_resource() -> None:
    """What it does not promote, it does not tell series apart by."""
    promoted = load("config/prometheus/otlp.yml")["otlp"]["promote_resource_attributes"]

    assert promoted == ATTRIBUTES


@pytest.mark.parametrize("file", ["prometheus.yaml", "gateway.yaml"])
def test_the_collectors_exporter_copies_every_attribute_of_a_resource(file: str) -> None:
    """The same, for the Collector's Prometheus exporter."""
    exporter = load(f"otel-collector/{file}")["exporters"]["prometheus"]
    patterns = exporter["resource_constant_labels"]["included"]

    assert [name for name in ATTRIBUTES if not any(fnmatch(name, one) for one in patterns)] == []
