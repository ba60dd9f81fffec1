# SPDX-License-Identifier: Apache-2.0
"""Cuts what is to be sent into requests that a receiver takes."""

from collections.abc import Iterable, Iterator
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)


def requests(resources: Iterable[bytes], limit_bytes: int) -> Iterator[bytes]:
    """ExportMetricsServiceRequests of at most so many bytes, from serialised ResourceMetrics.

    They are cut between Resources; inside one only if it is too large by itself. A single point
    that is larger than the limit stays as it is.
    """
    request = bytearray()
    for body in resources:
        # Field 1 of the request. Joining bytes is what serialising it anew would give.
        head = b"\x0a" + _varint(len(body))
        if request and len(request) + len(head) + len(body) > limit_bytes:
            yield from _within(bytes(request), limit_bytes)
            request.clear()
        request += head
        request += body
    if request:
        yield from _within(bytes(request), limit_bytes)


def halves(request: bytes) -> tuple[bytes, bytes] | None:
    """The same points in two requests; None if there is but one.

    Between Resources if it has several, else between metrics, else between points.
    """
    first, second = (ExportMetricsServiceRequest.FromString(request) for _ in range(2))
    middle = len(_several(first)) // 2
    if not middle:
        return None
    del _several(first)[middle:]
    del _several(second)[:middle]
    return first.SerializeToString(), second.SerializeToString()


def _within(request: bytes, limit_bytes: int) -> Iterator[bytes]:
    if len(request) <= limit_bytes or (pair := halves(request)) is None:
        yield request
        return
    for half in pair:
        yield from _within(half, limit_bytes)


def _several(request: ExportMetricsServiceRequest) -> Any:
    """The outermost list in a request that has not exactly one member."""
    several: Any = request.resource_metrics
    for inner in ("scope_metrics", "metrics"):
        if len(several) != 1:
            return several
        several = getattr(several[0], inner)
    if len(several) != 1:
        return several
    (metric,) = several
    return getattr(metric, metric.WhichOneof("data")).data_points


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
