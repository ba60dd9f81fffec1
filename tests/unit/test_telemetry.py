# SPDX-License-Identifier: Apache-2.0
"""What the agent says about itself."""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
)

from fake_collector import TAKEN, FakeCollector, refuse, serving, until
from otlp_samples import attributes
from xpumeter.destination import OtlpGrpc
from xpumeter.export import catalog, own
from xpumeter.export.catalog import Instrument
from xpumeter.export.own_exporter import own_exporter
from xpumeter.export.telemetry import Telemetry
from xpumeter.model.exports import ExportStats
from xpumeter.model.kernel import Losses
from xpumeter.model.stats import AgentStats, Request

STATS = AgentStats(
    rows=5,
    row_limit=16384,
    losses=Losses(events=3),
    missed={"return_stub": 2},
    unresolved=1,
    unresolved_age_s=2.5,
    exports=ExportStats(
        exports=5,
        failures={"UNAVAILABLE": 1},
        points=40,
        failed_points={"UNAVAILABLE": 10},
        rejected_points=3,
        duration_s=2.5,
    ),
    hook="fexit",
    version="1.2.3",
    object_sha256="0123456789abcdef",
)
ATTACHED = 1_700_000_000 * 10**9
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
        attached_unix_ns=ATTACHED,
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


def full(collector: FakeCollector) -> Telemetry:
    """With one request and one collection: then each metric has a point."""
    one = telemetry(collector)
    one.requested(Request("runtime.v1.RuntimeService/ListContainers", 0.02, ""))
    one.requested(Request("runtime.v1.RuntimeService/ListContainers", 2.0, "DEADLINE_EXCEEDED"))
    one.collected(0.003)
    return one


def points_of(metric: Metric) -> Sequence[NumberDataPoint | HistogramDataPoint]:
    """Whatever they are."""
    return [*metric.sum.data_points, *metric.gauge.data_points, *metric.histogram.data_points]


def test_every_metric_of_the_catalog_is_sent_as_it_says(collector: FakeCollector) -> None:
    """Name, unit, description, type and the names of the attributes."""
    full(collector).close(deadline_s=5)

    (scope,) = collector.taken[0].resource_metrics[0].scope_metrics
    assert (scope.scope.name, scope.scope.version) == ("xpumeter", "1.2.3")
    assert scope.schema_url == catalog.SCHEMA_URL
    sent = {metric.name: metric for metric in scope.metrics}
    assert sent.keys() == {metric.name for metric in own.METRICS}
    for metric in own.METRICS:
        message = sent[metric.name]
        assert (message.unit, message.description) == (metric.unit, metric.description)
        kinds = {Instrument.GAUGE: "gauge", Instrument.HISTOGRAM: "histogram"}
        assert message.WhichOneof("data") == kinds.get(metric.instrument, "sum")
        assert message.sum.is_monotonic == metric.monotonic
        known = {attribute.name: attribute.values for attribute in metric.attributes}
        for point in points_of(message):
            for name, value in attributes(point.attributes):
                assert not known[name] or value in known[name]


def test_values_are_those_of_the_agent(collector: FakeCollector) -> None:
    """Failures are on the same metric, under their error type."""
    full(collector).close(deadline_s=5)

    values: dict[tuple[str, Any], float] = {
        (metric.name, attributes(point.attributes)): point.as_int or point.as_double
        for metric in collector.taken[0].resource_metrics[0].scope_metrics[0].metrics
        for point in (*metric.sum.data_points, *metric.gauge.data_points)
    }
    assert values["xpumeter.row.usage", ()] == 5
    assert values["xpumeter.losses", (("xpumeter.loss", "event"),)] == 3
    assert values["xpumeter.program.missed", (("xpumeter.program", "return_stub"),)] == 2
    assert values["xpumeter.owner.unresolved_age", ()] == 2.5
    assert values["xpumeter.exports", ()] == 4
    assert values["xpumeter.exports", (("error.type", "UNAVAILABLE"),)] == 1
    assert values["xpumeter.export.time", ()] == 2.5
    points, component = own.POINTS_EXPORTED.name, ("otel.component.type", "xpumeter.sender")
    assert values[points, (component,)] == 37
    assert values[points, (component, ("error.type", "UNAVAILABLE"))] == 10
    assert values[points, (component, ("error.type", "rejected"))] == 3
    assert values["xpumeter.hook.info", (("xpumeter.hook", "fexit"),)] == 1
    build = (("xpumeter.version", "1.2.3"), ("xpumeter.object", "0123456789ab"))
    assert values["xpumeter.build.info", build] == 1
    assert values["process.memory.usage", ()] > 1 << 20
    assert values["process.cpu.time", (("cpu.mode", "user"),)] > 0
    assert 0 < values["process.uptime", ()] < 3600
    assert values["xpumeter.thread.usage", ()] > 1
    assert values["xpumeter.file_descriptor.usage", ()] > 3
    assert (
        values["xpumeter.file_descriptor.usage", ()] < values["xpumeter.file_descriptor.limit", ()]
    )


def test_requests_to_the_runtime_are_counted_with_their_time(collector: FakeCollector) -> None:
    """A histogram by method; a failure has the name of its gRPC status."""
    full(collector).close(deadline_s=5)

    (metric,) = (
        metric
        for metric in collector.taken[0].resource_metrics[0].scope_metrics[0].metrics
        if metric.name == "rpc.client.call.duration"
    )
    seen = {
        dict(attributes(point.attributes)).get("error.type"): (point.count, point.sum)
        for point in metric.histogram.data_points
    }
    assert seen == {None: (1, 0.02), "DEADLINE_EXCEEDED": (1, 2.0)}
    assert list(metric.histogram.data_points[0].explicit_bounds) == list(own.BOUNDS_S)


def test_what_the_kernel_counts_began_when_it_was_attached(collector: FakeCollector) -> None:
    """A restarted agent has the same start, or receivers would take old totals for new calls."""
    full(collector).close(deadline_s=5)

    metrics = collector.taken[0].resource_metrics[0].scope_metrics[0].metrics
    starts = {
        metric.name: {point.start_time_unix_nano for point in points_of(metric)}
        for metric in metrics
        if metric.WhichOneof("data") == "sum"
    }
    since = {"xpumeter.losses", "xpumeter.call.refused", "xpumeter.program.missed"}
    assert {name for name, found in starts.items() if found == {ATTACHED}} == since


def test_what_is_not_known_is_not_told(collector: FakeCollector) -> None:
    """No program was opened, no owner waits, there is no Collector: absent, never 0."""
    little = Telemetry(lambda: AgentStats(hook="fexit"), None, version="1", host=HOST)
    nothing = Telemetry(lambda: None, None, version="1", host=HOST)

    names = {
        metric.name
        for metric in little.now().resource_metrics[0].scope_metrics[0].metrics
        if points_of(metric)
    }
    assert "xpumeter.row.usage" in names
    assert not names & {
        "xpumeter.program.missed",
        "xpumeter.owner.unresolved_age",
        "xpumeter.exports",
        own.POINTS_EXPORTED.name,
        "rpc.client.call.duration",
    }
    assert len(nothing.now().resource_metrics) == 0
    for one in (little, nothing):
        one.close(deadline_s=1)


def test_the_own_metrics_can_never_overflow() -> None:
    """The SDK merges attribute sets from the 2,000th on; ours are closed, but for error names."""
    for metric in own.METRICS:
        sets = 1
        for attribute in metric.attributes:
            sets *= len(attribute.values) or 20  # gRPC has 17 states; there are 4 programs
            assert sets <= 400, metric.name


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
    temporalities = {
        metric.sum.aggregation_temporality
        for metric in scope.metrics
        if metric.WhichOneof("data") == "sum"
    }
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
