# SPDX-License-Identifier: Apache-2.0
"""What the agent says about itself."""

import logging
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality

from fake_collector import TAKEN, FakeCollector, refuse, serving, until
from otlp_samples import attributes
from xpumeter.destination import OtlpGrpc
from xpumeter.export.catalog import METRICS, On
from xpumeter.export.own_exporter import own_exporter
from xpumeter.export.telemetry import Telemetry
from xpumeter.model.kernel import Losses
from xpumeter.model.stats import AgentStats

STATS = AgentStats(
    rows=5,
    row_limit=16384,
    losses=Losses(events=3),
    runtime_calls=10,
    runtime_errors=2,
    exports=4,
    hook="fexit",
)
HOST = {"host.name": "h1", "host.id": "0123456789abcdef0123456789abcdef"}


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    with serving() as fake:
        yield fake


def telemetry(
    collector: FakeCollector, *, interval_s: float = 3600, timeout_s: float = 0.5
) -> Telemetry:
    destination = OtlpGrpc(collector.endpoint, headers=(("x-token", "t"),), timeout_s=timeout_s)
    return Telemetry(
        lambda: STATS,
        own_exporter(destination),
        version="1.2.3",
        host=HOST,
        interval_s=interval_s,
    )


def test_it_has_a_resource_of_its_own(collector: FakeCollector) -> None:
    """A service, on a host; the same instance after a restart."""
    seen = []
    for _ in range(2):
        telemetry(collector).close(deadline_s=5)
        (resource,) = collector.taken[-1].resource_metrics
        seen.append(dict(attributes(resource.resource.attributes)))

    assert seen[0] == seen[1]
    assert (
        seen[0].items() >= {**HOST, "service.name": "xpumeter", "service.version": "1.2.3"}.items()
    )
    assert seen[0]["service.instance.id"]
    assert collector.headers["x-token"] == "t"


def test_every_metric_of_the_catalog_is_sent_as_it_says(collector: FakeCollector) -> None:
    """Name, unit, description, type and the names of the attributes."""
    telemetry(collector).close(deadline_s=5)

    (scope,) = collector.taken[0].resource_metrics[0].scope_metrics
    assert (scope.scope.name, scope.scope.version) == ("xpumeter", "1.2.3")
    sent = {metric.name: metric for metric in scope.metrics}
    expected = {metric.name: metric for metric in METRICS if metric.on is On.AGENT}
    assert sent.keys() == expected.keys()
    for name, metric in expected.items():
        message = sent[name]
        assert (message.unit, message.description) == (metric.unit, metric.description)
        assert message.sum.is_monotonic == metric.monotonic
        known = {attribute.name for attribute in metric.attributes}
        assert all(
            {key for key, _ in attributes(point.attributes)} <= known
            for point in message.sum.data_points
        )


def test_values_are_those_of_the_agent(collector: FakeCollector) -> None:
    """Failures are on the same counter, under their error type."""
    telemetry(collector).close(deadline_s=5)

    values: dict[tuple[str, Any], float] = {
        (metric.name, attributes(point.attributes)): point.as_int or point.as_double
        for metric in collector.taken[0].resource_metrics[0].scope_metrics[0].metrics
        for point in metric.sum.data_points
    }
    assert values["xpumeter.row.usage", ()] == 5
    assert values["xpumeter.losses", (("xpumeter.loss", "event"),)] == 3
    assert values["xpumeter.runtime.requests", ()] == 8
    assert values["xpumeter.runtime.requests", (("error.type", "_OTHER"),)] == 2
    assert values["xpumeter.exports", ()] == 4
    assert ("xpumeter.exports", (("error.type", "_OTHER"),)) not in values
    assert values["xpumeter.hook.info", (("xpumeter.hook", "fexit"),)] == 1
    assert values["process.memory.usage", ()] > 1 << 20
    assert values["process.cpu.time", (("cpu.mode", "user"),)] > 0


def test_a_collector_that_is_away_is_one_line(
    collector: FakeCollector, caplog: pytest.LogCaptureFixture
) -> None:
    """And one when it is back."""
    caplog.set_level(logging.INFO)
    collector.answer = refuse(grpc.StatusCode.UNAVAILABLE, "later")
    one = telemetry(collector, interval_s=0.05)
    until(lambda: collector.tries >= 4)
    collector.answer = lambda _request, _context: TAKEN
    until(lambda: len(collector.taken) >= 2)
    one.close(deadline_s=5)

    assert [line.split("state=")[1] for line in caplog.messages] == ["failing", "OK"]


def test_what_the_environment_says_to_other_exporters_is_not_taken(
    collector: FakeCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the agent's metrics would go another way, or mean something else, than the counts."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
    one = telemetry(collector)
    one.close(deadline_s=5)
    until(lambda: bool(collector.taken))

    scope = collector.taken[0].resource_metrics[0].scope_metrics[0]
    temporalities = {metric.sum.aggregation_temporality for metric in scope.metrics}
    assert temporalities == {AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE}


def test_closing_ends_within_its_deadline(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody listens: the agent's end does not wait for that."""
    with serving() as gone:
        pass
    one = telemetry(gone, timeout_s=30)
    begin = time.monotonic()
    one.close(deadline_s=0.3)

    assert time.monotonic() - begin < 5
    assert [record for record in caplog.records if record.exc_info] == []
