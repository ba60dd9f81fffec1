# SPDX-License-Identifier: Apache-2.0
"""A Collector that only adds up: what each caller was shown to have done, over many batches."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from fake_collector import TAKEN, serving
from otlp_samples import attributes, is_marker

COUNTED = ("xpumeter.calls", "xpumeter.call.interrupted", "xpumeter.call.unattributed")


@dataclass(frozen=True, slots=True, order=True)
class Count:
    """What was counted: `caller` is the container's id, else the pod's uid or the cgroup's path."""

    caller: str
    device: str
    metric: str
    kind: str
    error: str


class Sink:
    """The last value of each count, kept when its series ends or gets other names.

    Attributes:
        endpoint: `http://127.0.0.1:PORT`.
        values: By what was counted.
        names: Attributes of each caller's Resource, but for those of device and host.
    """

    def __init__(self) -> None:
        self.endpoint = ""
        self.values: dict[Count, int] = {}
        self.names: dict[str, Mapping[str, str]] = {}

    def take(self, request: ExportMetricsServiceRequest) -> None:
        """Add one request."""
        for resource in request.resource_metrics:
            of = {str(key): str(value) for key, value in attributes(resource.resource.attributes)}
            caller = (
                of.get("container.id") or of.get("k8s.pod.uid") or of.get("process.linux.cgroup")
            )
            counted = [
                (metric.name, point)
                for scope in resource.scope_metrics
                for metric in scope.metrics
                if metric.name in COUNTED
                for point in metric.sum.data_points
                if not is_marker(point)
            ]
            for name, point in counted:
                said = {str(key): str(value) for key, value in attributes(point.attributes)}
                kind = said.get("xpumeter.call.kind") or said.get("xpumeter.reason", "")
                error = said.get("error.type", "")
                key = Count(caller or "", of.get("hw.id", ""), name, kind, error)
                self.values[key] = max(self.values.get(key, 0), int(point.as_int))
            if caller and counted:
                self.names[caller] = {
                    key: of[key] for key in of if key.startswith(("k8s.", "container.", "process."))
                }

    def calls(self) -> dict[tuple[str, str, str, str], int]:
        """Calls by caller, device, kind and error."""
        return {
            (key.caller, key.device, key.kind, key.error): value
            for key, value in self.values.items()
            if key.metric == COUNTED[0]
        }

    def by_device(self) -> dict[str, int]:
        """All that was counted, whoever called."""
        found: dict[str, int] = {}
        for key, value in self.values.items():
            if value:
                found[key.device] = found.get(key.device, 0) + value
        return found


@contextmanager
def adding_up() -> Iterator[Sink]:
    """A sink that listens."""
    sink = Sink()

    def answer(
        request: ExportMetricsServiceRequest, _context: grpc.ServicerContext
    ) -> ExportMetricsServiceResponse:
        sink.take(request)
        collector.taken.clear()  # what was added up is not kept
        return TAKEN

    with serving() as collector:
        collector.answer = answer
        sink.endpoint = collector.endpoint
        yield sink
