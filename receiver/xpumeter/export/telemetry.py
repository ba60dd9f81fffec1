# SPDX-License-Identifier: Apache-2.0
"""The agent's metrics about itself, through OpenTelemetry's SDK.

They have a Resource of their own: `service.name=xpumeter`. Importing this imports the SDK, 10 MiB.
"""

import os
import resource
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from xpumeter.export import catalog
from xpumeter.model.stats import AgentStats

# Semantic conventions of service.instance.id: the namespace of UUIDs that are made of a machine id.
_INSTANCE = uuid.UUID("4d63009a-8d0f-11ee-aad7-4c796ed8e320")

Observe = Callable[[AgentStats], Iterable[Observation]]


class Telemetry:
    """Sends what `stats` gives, each interval, until it is closed; not making one switches it off.

    `host` are the attributes of the host, as on every Resource. `stats` is called in a thread of
    its own.
    """

    def __init__(
        self,
        stats: Callable[[], AgentStats],
        exporter: MetricExporter,
        *,
        version: str,
        host: Mapping[str, str],
        interval_s: float = 60.0,
    ) -> None:
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=interval_s * 1000)
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


def _own_resource(version: str, host: Mapping[str, str]) -> Resource:
    machine = host.get("host.id")
    instance = uuid.uuid5(_INSTANCE, machine) if machine else uuid.uuid4()
    ours = Resource.create(
        {
            **host,
            "service.name": "xpumeter",
            "service.version": version,
            "service.instance.id": str(instance),
        },
        catalog.SCHEMA_URL,
    )
    # OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME, which `create` puts below what it is given.
    return ours.merge(OTELResourceDetector().detect())


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
