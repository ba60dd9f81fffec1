# SPDX-License-Identifier: Apache-2.0
"""Owners, devices and snapshots for tests of the export, and how to read a batch."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Metric,
    NumberDataPoint,
    ResourceMetrics,
)

from xpumeter.export.messages import Batch, Messages
from xpumeter.model.calls import HardwareType, Kind
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.owners import Owner
from xpumeter.model.series import Point, Series, Snapshot

GPU = KnownDevice(
    device_id=DeviceId("0000:03:00.0"),
    driver="xe",
    hw_type=HardwareType.GPU,
    vendor="Intel",
    model=None,
    pci_id="8086:e20b",
    numa_node=0,
    kinds={},
)
NPU = replace(GPU, device_id=DeviceId("0000:00:0b.0"), driver="intel_vpu", hw_type=HardwareType.NPU)
TRAINER = Owner("ml", "trainer-0", "uid-1", "main", "c" * 64)
SERVICE = Owner(cgroup="/system.slice/media.service")
HOST = {"host.name": "h1"}
SECOND = 1_000_000_000

Points = Mapping[tuple[str, tuple[tuple[str, Any], ...]], NumberDataPoint]


def series(
    owner: Owner = TRAINER,
    device: KnownDevice = GPU,
    *,
    calls: int = 7,
    start: int = 100,
    ended: bool = False,
    error: int = 0,
) -> Series:
    return Series(owner, device, {(Kind.SUBMIT, error): Point(calls, start)}, {}, {}, ended)


def snapshot(*all_series: Series, at: int = SECOND, boot: int | None = None) -> Snapshot:
    """At one moment; `boot` is the other clock, which goes with the first unless it is said."""
    return Snapshot(at, at if boot is None else boot, all_series, devices=(), unattributed={})


def new(**options: Any) -> Messages:
    return Messages(version="1.2.3", host=HOST, **{"linger_s": 0, **options})


def attributes(pairs: Iterable[Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((pair.key, getattr(pair.value, pair.value.WhichOneof("value"))) for pair in pairs)


def resources(batch: Batch) -> dict[tuple[tuple[str, Any], ...], ResourceMetrics]:
    """Each Resource of a batch; it is an error if one comes twice."""
    found: dict[tuple[tuple[str, Any], ...], ResourceMetrics] = {}
    for part in batch.parts:
        for resource in ExportMetricsServiceRequest.FromString(part).resource_metrics:
            key = attributes(resource.resource.attributes)
            assert key not in found
            found[key] = resource
    return found


def points_of(metric: Metric) -> Iterable[NumberDataPoint]:
    """Of a sum or a gauge."""
    return metric.gauge.data_points if metric.HasField("gauge") else metric.sum.data_points


def points(resource: ResourceMetrics) -> Points:
    (scope,) = resource.scope_metrics
    return {
        (metric.name, attributes(point.attributes)): point
        for metric in scope.metrics
        for point in points_of(metric)
    }


def only(batch: Batch) -> NumberDataPoint:
    """The one point of a batch of one."""
    (resource,) = resources(batch).values()
    (point,) = points(resource).values()
    return point


def is_marker(point: NumberDataPoint) -> bool:
    return point.flags == 1 and point.WhichOneof("value") is None
