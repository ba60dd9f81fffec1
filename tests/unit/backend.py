# SPDX-License-Identifier: Apache-2.0
"""A Collector as a model: what it keeps of each series, and what users would make of that."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics

from otlp_samples import is_marker

SECOND = 10**9
OF_SERIES = {"xpumeter.calls", "xpumeter.call.interrupted"}
COUNTED = OF_SERIES | {"xpumeter.call.unattributed"}

Key = tuple[str, ...]
"""Attributes of the Resource, name of the metric, attributes of the point."""


class Shown(NamedTuple):
    """One series; `increase` is what it rose by in all its lives."""

    value: int
    start_unix_ns: int
    increase: int


class Backend:
    """The newest value of each series, and by how much each rose."""

    def __init__(self) -> None:
        self.shown: dict[Key, Shown] = {}
        self.arrived: dict[Key, int] = {}

    def take(self, parts: Iterable[bytes]) -> None:
        """One batch. No series may step back, nor be there twice."""
        self.arrived = {}
        for part in parts:
            for resource in ExportMetricsServiceRequest.FromString(part).resource_metrics:
                self._take(resource)

    def _take(self, resource: ResourceMetrics) -> None:
        names = [f"{each.key}={each.value.string_value}" for each in resource.resource.attributes]
        for metric in resource.scope_metrics[0].metrics:
            for point in metric.sum.data_points:
                values = ",".join(sorted(each.value.string_value for each in point.attributes))
                key = (*names, metric.name, values)
                assert key not in self.arrived, "two points of one series in a batch"
                if is_marker(point):
                    continue
                value, start = int(point.as_int), point.start_time_unix_nano
                last = self.shown.get(key, Shown(0, start, 0))
                # A start that NTP moved a little is no new beginning.
                fresh = start > last.start_unix_ns + SECOND // 2
                assert value >= last.value or fresh, "a series stepped back"
                increase = last.increase + value - (0 if fresh else last.value)
                self.shown[key] = Shown(value, start, increase)
                self.arrived[key] = value

    def live(self) -> int:
        """Calls in the last batch."""
        return sum(value for key, value in self.arrived.items() if key[-2] in COUNTED)

    def increases(self) -> dict[tuple[str, str], list[int]]:
        """By owner and device: what each Resource rose by.

        An owner is its container id, path or pod uid. It has one Resource with names and one
        without, each of which may have all its calls.
        """
        rose: Counter[Key] = Counter()
        for key, point in self.shown.items():
            if key[-2] in OF_SERIES:
                rose[key[:-2]] += point.increase
        found: dict[tuple[str, str], list[int]] = {}
        for resource, increase in rose.items():
            names = dict(each.split("=", 1) for each in resource)
            owner = (
                names.get("container.id")
                or names.get("process.linux.cgroup")
                or names["k8s.pod.uid"]
            )
            found.setdefault((owner, names["hw.id"]), []).append(increase)
        return found
