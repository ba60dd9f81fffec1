# SPDX-License-Identifier: Apache-2.0
"""The catalog follows the conventions, and docs/metrics.md follows the catalog."""

import re
from pathlib import Path

import pytest

from xpumeter.export import catalog, own
from xpumeter.export.catalog import Instrument, Metric
from xpumeter.export.reference import render

METRICS = (*catalog.METRICS, *own.METRICS)
DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_metric_reference_is_current() -> None:
    """docs/metrics.md says what the catalog says; `make docs` writes it."""
    assert DOCS.read_text() == render()


def test_every_metric_is_there_once() -> None:
    """A name stands for one metric."""
    names = [metric.name for metric in METRICS]

    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_and_units_follow_the_conventions(metric: Metric) -> None:
    """Lower case and dots; no `_total`, no unit in the name; a thing in braces is singular."""
    assert re.fullmatch(r"(xpumeter|process|rpc|otel)(\.[a-z]+(_[a-z]+)*)+", metric.name)
    assert not metric.name.endswith(("_total", "_seconds", "_bytes", ".count"))
    assert metric.name.endswith(".duration") == (metric.instrument is Instrument.HISTOGRAM)
    assert re.fullmatch(r"\{[a-z_]+\}|s|By|1", metric.unit)
    assert not metric.unit.endswith("s}") or metric.unit == "{loss}"
    assert metric.description.endswith(".")
    for attribute in metric.attributes:
        assert re.fullmatch(r"[a-z]+(\.[a-z_]+)+", attribute.name)
