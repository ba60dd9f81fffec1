# SPDX-License-Identifier: Apache-2.0
"""The agent's metrics about itself, through OpenTelemetry's SDK and its OTLP exporter.

They have a Resource of their own: `service.name=xpumeter`. Importing this imports the SDK, 10 MiB.
"""

import logging
import os
import resource
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import (
    AlwaysOffExemplarFilter,
    MeterProvider,
    ObservableCounter,
    ObservableUpDownCounter,
)
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource

from xpumeter.export import catalog, otlp
from xpumeter.model.stats import AgentStats

_log = logging.getLogger(__name__)

# Semantic conventions of service.instance.id: the namespace of UUIDs that are made of a machine id.
_INSTANCE = uuid.UUID("4d63009a-8d0f-11ee-aad7-4c796ed8e320")

Observe = Callable[[AgentStats], Iterable[Observation]]


class Telemetry:
    """Sends what `stats` gives, each interval, until it is closed; not making one switches it off.

    `host` are the attributes of the host, as on every Resource. `stats` is called in a thread of
    its own. While the Collector is away one line is logged, and one when it is back.
    """

    def __init__(
        self,
        stats: Callable[[], AgentStats],
        endpoint: str,
        *,
        version: str,
        host: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        interval_s: float = 60.0,
    ) -> None:
        reader = PeriodicExportingMetricReader(
            _Exporter(endpoint, headers or {}, timeout_s),
            export_interval_millis=interval_s * 1000,
        )
        self._provider = MeterProvider(
            [reader],
            resource=_own_resource(version, host),
            shutdown_on_exit=False,
            exemplar_filter=AlwaysOffExemplarFilter(),
        )
        meter = self._provider.get_meter(catalog.SCOPE, version, catalog.SCHEMA_URL)
        for metric, observe in _OBSERVED.items():
            _register(meter, metric, stats, observe)

    def close(self, *, deadline_s: float) -> None:
        """Send the last values and stop, within the deadline."""
        self._provider.shutdown(timeout_millis=deadline_s * 1000)


class _Exporter(OTLPMetricExporter):
    """The stock exporter, which logs each try; this one logs changes of state."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], timeout_s: float) -> None:
        target = otlp.Target.parse(endpoint)
        address = target.address if target.address.startswith("unix:") else f"//{target.address}"
        # All said aloud: what is left out the base class takes from OTEL_* variables, and then the
        # agent's own metrics would arrive where the counts do not.
        super().__init__(
            endpoint=address,
            insecure=not target.secure,
            credentials=otlp.credentials() if target.secure else None,
            headers={name.lower(): value for name, value in headers.items()},
            timeout=timeout_s,
            compression=otlp.NO_COMPRESSION,
            preferred_temporality={
                ObservableCounter: AggregationTemporality.CUMULATIVE,
                ObservableUpDownCounter: AggregationTemporality.CUMULATIVE,
            },
        )
        self._url = endpoint
        self._failing = False
        logging.getLogger("opentelemetry.exporter.otlp.proto.grpc").setLevel(logging.CRITICAL)

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        result = super().export(metrics_data, timeout_millis, **kwargs)
        failing = result is not MetricExportResult.SUCCESS
        if failing and not self._failing:
            _log.warning("event=telemetry endpoint=%s state=failing", self._url)
        elif self._failing and not failing:
            _log.info("event=telemetry endpoint=%s state=OK", self._url)
        self._failing = failing
        return result


def _own_resource(version: str, host: Mapping[str, str]) -> Resource:
    machine = host.get("host.id")
    instance = uuid.uuid5(_INSTANCE, machine) if machine else uuid.uuid4()
    return Resource.create(
        {
            **host,
            "service.name": "xpumeter",
            "service.version": version,
            "service.instance.id": str(instance),
        },
        catalog.SCHEMA_URL,
    )


def _register(
    meter: Meter, metric: catalog.Metric, stats: Callable[[], AgentStats], observe: Observe
) -> None:
    def callback(_options: CallbackOptions) -> Iterable[Observation]:
        return observe(stats())

    create = (
        meter.create_observable_counter
        if metric.monotonic
        else meter.create_observable_up_down_counter
    )
    create(metric.name, [callback], metric.unit, metric.description)


def _plain(field: str) -> Observe:
    return lambda stats: [Observation(getattr(stats, field))]


def _outcomes(tries: int, failures: int) -> Iterable[Observation]:
    """Failures have an `error.type`, on the same counter; their share is their quotient."""
    yield Observation(max(0, tries - failures))
    if failures:
        yield Observation(failures, {catalog.FAILED.name: catalog.OTHER_ERROR})


def _losses(stats: AgentStats) -> Iterable[Observation]:
    losses = stats.losses
    for loss, count in (
        ("event", losses.events),
        ("thread", losses.threads),
        ("cgroup", losses.cgroups),
        ("device", losses.devices),
        ("entry", losses.entries),
        ("return", losses.returns),
        ("empty_slot", losses.empty_slots),
        ("tenant_row", losses.tenant_rows),
        ("tenant_cgroup", losses.tenant_cgroups),
    ):
        yield Observation(count, {catalog.LOSS.name: loss})


def _hook(stats: AgentStats) -> Iterable[Observation]:
    if stats.hook:
        yield Observation(1, {catalog.HOOK.name: stats.hook})


def _memory(_stats: AgentStats) -> Iterable[Observation]:
    resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
    yield Observation(resident_pages * resource.getpagesize())


def _cpu(_stats: AgentStats) -> Iterable[Observation]:
    times = os.times()
    yield Observation(times.user, {catalog.CPU_MODE.name: "user"})
    yield Observation(times.system, {catalog.CPU_MODE.name: "system"})


_OBSERVED: Mapping[catalog.Metric, Observe] = {
    catalog.ROW_USAGE: _plain("rows"),
    catalog.ROW_LIMIT: _plain("row_limit"),
    catalog.CALL_REFUSED: _plain("refused"),
    catalog.CALL_MISSING: _plain("missing"),
    catalog.LOSSES: _losses,
    catalog.RUNTIME_REQUESTS: lambda stats: _outcomes(stats.runtime_calls, stats.runtime_errors),
    catalog.MALFORMED_RECORDS: _plain("bad_records"),
    catalog.OWNER_UNRESOLVED: _plain("unresolved"),
    catalog.EXPORTS: lambda stats: _outcomes(stats.exports, stats.export_failures),
    catalog.HOOK_INFO: _hook,
    catalog.MEMORY_USAGE: _memory,
    catalog.CPU_TIME: _cpu,
}
