# SPDX-License-Identifier: Apache-2.0
"""The agent's metrics about itself, through OpenTelemetry's SDK.

They have a Resource of their own: `service.name=xpumeter`. Importing this imports the SDK, 10 MiB.
"""

import platform
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.sdk.metrics import (
    AlwaysOffExemplarFilter,
    MeterProvider,
)
from opentelemetry.sdk.metrics.export import (
    InMemoryMetricReader,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from xpumeter.export import catalog, own
from xpumeter.export.observe import OBSERVED, Observe
from xpumeter.model.stats import AgentStats, Request

# Semantic conventions of service.instance.id: the namespace of UUIDs that are made of a machine id.
_INSTANCE = uuid.UUID("4d63009a-8d0f-11ee-aad7-4c796ed8e320")

Stats = Callable[[], AgentStats | None]


class Telemetry:
    """Sends what `stats` gives, each interval, until it is closed; not making one switches it off.

    `host` are the attributes of the host, as on every Resource. `stats` is called in a thread of
    its own, and gives None while there is nothing to tell. While the Collector is away one line is
    logged, and one when it is back. Without an `exporter` nothing is sent, and `now` is all there
    is. `attached_unix_ns` is when the kernel began to count.
    """

    def __init__(
        self,
        stats: Stats,
        exporter: MetricExporter | None,
        *,
        version: str,
        host: Mapping[str, str],
        interval_s: float = 60.0,
        attached_unix_ns: int = 0,
    ) -> None:
        self._attached_unix_ns = attached_unix_ns or time.time_ns()
        self._asked = InMemoryMetricReader()
        readers: list[MetricReader] = [self._asked]
        if exporter is not None:
            begun = _Begun(exporter, self._attached_unix_ns)
            readers.append(
                PeriodicExportingMetricReader(begun, export_interval_millis=interval_s * 1000)
            )
        self._provider = MeterProvider(
            readers,
            resource=_own_resource(version, host),
            shutdown_on_exit=False,
            exemplar_filter=AlwaysOffExemplarFilter(),
        )
        meter = self._provider.get_meter(catalog.SCOPE, version, catalog.SCHEMA_URL)
        for metric, observe in OBSERVED.items():
            _register(meter, metric, stats, observe)
        self._rpc_duration = _histogram(meter, own.RPC_DURATION)
        self._collection_duration = _histogram(meter, own.COLLECTION_DURATION)

    def collected(self, duration_s: float) -> None:
        """Record one collection."""
        self._collection_duration.record(duration_s)

    def requested(self, request: Request) -> None:
        """Record one request to the container runtime."""
        attributes = {own.RPC_SYSTEM.name: "grpc", own.RPC_METHOD.name: request.method}
        if request.error:
            attributes[own.RPC_ERROR.name] = request.error
        self._rpc_duration.record(request.duration_s, attributes)

    def now(self) -> ExportMetricsServiceRequest:
        """The agent's own metrics at this moment, as they would be sent; from any thread."""
        data = self._asked.get_metrics_data()
        if data is None:
            return ExportMetricsServiceRequest()
        return encode_metrics(_since(data, self._attached_unix_ns))

    def close(self, *, deadline_s: float) -> None:
        """Send the last values and stop, within the deadline."""
        self._provider.shutdown(timeout_millis=deadline_s * 1000)


class _Begun(MetricExporter):
    """Hands on what it gets, with the start times of what the kernel counts."""

    def __init__(self, exporter: MetricExporter, attached_unix_ns: int) -> None:
        super().__init__(exporter._preferred_temporality, exporter._preferred_aggregation)
        self._exporter = exporter
        self._attached_unix_ns = attached_unix_ns

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        begun = _since(metrics_data, self._attached_unix_ns)
        return self._exporter.export(begun, timeout_millis, **kwargs)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._exporter.shutdown(timeout_millis, **kwargs)


def _own_resource(version: str, host: Mapping[str, str]) -> Resource:
    machine = host.get("host.id")
    instance = uuid.uuid5(_INSTANCE, machine) if machine else uuid.uuid4()
    ours = Resource.create(
        {
            **host,
            "service.name": "xpumeter",
            "service.version": version,
            "service.instance.id": str(instance),
            "process.runtime.name": platform.python_implementation().lower(),
            "process.runtime.version": platform.python_version(),
        },
        catalog.SCHEMA_URL,
    )
    # OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME, which `create` puts below what it is given.
    return ours.merge(OTELResourceDetector().detect())


def _since(metrics_data: MetricsData, unix_ns: int) -> MetricsData:
    """The same, with the start times of what the kernel counts.

    The SDK can say no other start than its own. With that, a receiver would take the totals of a
    restarted agent for new ones.
    """
    names = {metric.name for metric in own.SINCE_ATTACH}

    def begun(metric: Metric) -> Metric:
        data = metric.data
        if metric.name not in names or not isinstance(data, Sum):
            return metric
        points = [replace(each, start_time_unix_nano=unix_ns) for each in data.data_points]
        return replace(metric, data=replace(data, data_points=points))

    return MetricsData(
        [
            replace(
                each,
                scope_metrics=[
                    replace(scope, metrics=[begun(metric) for metric in scope.metrics])
                    for scope in each.scope_metrics
                ],
            )
            for each in metrics_data.resource_metrics
        ]
    )


def _register(meter: Meter, metric: catalog.Metric, stats: Stats, observe: Observe) -> None:
    def callback(_options: CallbackOptions) -> Iterable[Observation]:
        found = stats()
        return observe(found) if found else ()

    create = {
        catalog.Instrument.COUNTER: meter.create_observable_counter,
        catalog.Instrument.UPDOWNCOUNTER: meter.create_observable_up_down_counter,
        catalog.Instrument.GAUGE: meter.create_observable_gauge,
    }[metric.instrument]
    create(metric.name, [callback], metric.unit, metric.description)


def _histogram(meter: Meter, metric: catalog.Metric) -> Histogram:
    return meter.create_histogram(
        metric.name,
        metric.unit,
        metric.description,
        explicit_bucket_boundaries_advisory=own.BOUNDS_S,
    )
