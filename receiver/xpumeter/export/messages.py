# SPDX-License-Identifier: Apache-2.0
"""A snapshot in, bytes of OTLP out: one Resource per (owner, device).

OpenTelemetry's SDK holds one Resource per provider and never forgets a series (decision 8). So the
messages are ours: kept from one snapshot to the next and changed in place.

The end of a series is told in two steps, since a Collector forgets it at the second: first its last
value, until a batch with it was delivered; then a point without a recorded value, the marker, until
a batch with that was delivered.
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    DataPointFlags,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from xpumeter.export import catalog, split
from xpumeter.export.naming import Attributes, Naming, PointKey, key_values
from xpumeter.model.owners import Owner
from xpumeter.model.series import Point, Snapshot

LIMIT_BYTES = 3 << 20
"""Of one request. Receivers take 4 MiB unless told otherwise."""

LINGER_S = 60.0
"""From the end of a container to its markers: a scrape once a minute still sees the last value."""

_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE

_HOLD_NS = 60 * 10**9
"""The largest step back of the clock that is waited for."""

_HELD = 4096
"""Resources that are gone and not delivered yet, kept for a Collector that is away."""


@dataclass(frozen=True, slots=True)
class Batch:
    """All series at one moment: requests, serialised, and how many points are in them."""

    seq: int
    parts: tuple[bytes, ...]
    points: int = 0


class _State(Enum):
    LIVE = auto()
    MARKED = auto()
    DONE = auto()


@dataclass(frozen=True, slots=True)
class _Seen:
    """A point as the snapshot shows it."""

    point: Point
    ended: bool

    def merged(self, other: "_Seen", metric: catalog.Metric) -> "_Seen":
        """Of two points that have all attributes in common: their sum; of ages the larger."""
        combine = max if metric.instrument is catalog.Instrument.GAUGE else operator.add
        value = combine(self.point.value, other.point.value)
        start_unix_ns = min(self.point.start_unix_ns, other.point.start_unix_ns)
        return _Seen(Point(value, start_unix_ns), self.ended and other.ended)


@dataclass(frozen=True, slots=True)
class _Moment:
    seq: int
    delivered: int
    unix_ns: int
    boot_ns: int
    linger_ns: int


@dataclass(slots=True)
class _Series:
    """One point from batch to batch.

    `since` is the first batch that had this value or this marker; `ended_boot_ns` when the end was
    seen first.
    """

    point: Point | None = None
    state: _State = _State.DONE
    since: int = 0
    ended_boot_ns: int | None = None
    message: NumberDataPoint | None = None

    def advance(self, seen: _Seen | None, now: _Moment) -> None:
        """Move on to what the next batch says; `seen` is None if the snapshot lacks the series."""
        changed = seen is not None and seen.point != self.point
        if seen is not None and (changed or not seen.ended):
            if changed or self.state is not _State.LIVE:
                self.since = now.seq
            self.point, self.state, self.ended_boot_ns = seen.point, _State.LIVE, None
        if seen is not None and not seen.ended:
            return
        if seen is not None and self.ended_boot_ns is None:
            self.ended_boot_ns = now.boot_ns
        delivered = now.delivered >= self.since
        # What the snapshot lacks got another name. It never waits, not even until it was
        # delivered: its calls are in the other series by now.
        due = seen is None or (delivered and self._lingered(now))
        if self.state is _State.MARKED and delivered:
            self.state = _State.DONE
        elif self.state is _State.LIVE and due:
            self.state, self.since = _State.MARKED, now.seq

    def _lingered(self, now: _Moment) -> bool:
        return now.boot_ns - (self.ended_boot_ns or 0) >= now.linger_ns


class _Resource:
    """The message of one Resource, rebuilt when points come or go, else changed in place."""

    def __init__(self, attributes: Attributes, scope: InstrumentationScope) -> None:
        self._attributes = attributes
        self._scope = scope
        self._series: dict[PointKey, _Series] = {}
        self._message = ResourceMetrics()

    def update(self, seen: Mapping[PointKey, _Seen], now: _Moment) -> bool:
        """Take over what the snapshot shows. False if nothing is left to say, now or later."""
        before = {key: series.state for key, series in self._series.items()}
        for key in seen:
            self._series.setdefault(key, _Series())
        for key, series in self._series.items():
            series.advance(seen.get(key), now)
        # What the snapshot still lists as ended stays known, or it would begin again.
        self._series = {
            key: series
            for key, series in self._series.items()
            if key in seen or series.state is not _State.DONE
        }
        if before != {key: series.state for key, series in self._series.items()}:
            self._rebuild()
        for (metric, _), series in self._series.items():
            if series.message is not None:
                _fill(series, metric, now.unix_ns)
        return bool(self._series)

    @property
    def points(self) -> int:
        """How many points the message has."""
        return sum(series.message is not None for series in self._series.values())

    @property
    def is_done(self) -> bool:
        """Whether the markers of all its points were delivered."""
        return all(series.state is _State.DONE for series in self._series.values())

    def serialized(self) -> bytes:
        """Bytes of the ResourceMetrics; empty if it has no points."""
        return self._message.SerializeToString()

    def _rebuild(self) -> None:
        self._message = ResourceMetrics()
        live: dict[catalog.Metric, list[PointKey]] = {}
        marked: list[PointKey] = []
        for key, series in self._series.items():
            series.message = None
            if series.state is _State.LIVE:
                live.setdefault(key[0], []).append(key)
            elif series.state is _State.MARKED:
                marked.append(key)
        if not live and not marked:
            return
        self._message.schema_url = catalog.SCHEMA_URL
        self._message.resource.attributes.extend(key_values(self._attributes))
        scope = self._message.scope_metrics.add(schema_url=catalog.SCHEMA_URL, scope=self._scope)
        for keys in live.values():
            self._add_metric(scope, keys)
        # Collectors up to 0.161 leave a Metric at its first marker: each has one of its own.
        for key in marked:
            self._add_metric(scope, [key])

    def _add_metric(self, scope: ScopeMetrics, keys: list[PointKey]) -> None:
        metric = keys[0][0]
        message = scope.metrics.add(
            name=metric.name, description=metric.description, unit=metric.unit
        )
        data = message.gauge if metric.instrument is catalog.Instrument.GAUGE else message.sum
        if isinstance(data, Sum):
            data.is_monotonic = metric.monotonic
            data.aggregation_temporality = _CUMULATIVE
        for key in keys:
            self._series[key].message = data.data_points.add(attributes=key_values(key[1]))


def _fill(series: _Series, metric: catalog.Metric, unix_ns: int) -> None:
    message, point = series.message, series.point
    assert message is not None and point is not None  # noqa: S101, PT018
    message.time_unix_nano = unix_ns
    message.start_time_unix_nano = point.start_unix_ns
    if series.state is _State.MARKED:
        message.flags = DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
    elif metric.unit == "s":
        message.as_double = point.value / 1e9
    else:
        message.as_int = point.value


class Messages:
    """Turns snapshots into batches, and remembers what the next one has to say.

    `host` are the attributes of every Resource (`host.name`, ...). Equal Resources are one: their
    values add up. A clock that steps back a little holds the time still until it has caught up,
    since a Collector drops a point that is older than the last. A large step is taken over: what
    was sent in the future would be wrong for as long as it reaches.

    Attributes:
        told: Owners of the last snapshot that have ended, and of whom nothing is left to say: the
            last value and the marker of each series were delivered.
    """

    def __init__(
        self,
        *,
        version: str,
        host: Mapping[str, str],
        linger_s: float = LINGER_S,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        self._naming = Naming(host)
        self._scope = InstrumentationScope(name=catalog.SCOPE, version=version)
        self._linger_ns = int(linger_s * 1e9)
        self._limit_bytes = limit_bytes
        self._seq = 0
        self._unix_ns = 0
        self._resources: dict[Attributes, _Resource] = {}
        self.told: frozenset[Owner] = frozenset()

    def update(self, snapshot: Snapshot, *, delivered: int) -> Batch:
        """Give the batch of a snapshot; `delivered` is the newest batch that arrived, 0 if none.

        A batch has every series, so that the newest stands for all before it.
        """
        self._seq += 1
        if not self._unix_ns - _HOLD_NS < snapshot.unix_ns < self._unix_ns:
            self._unix_ns = snapshot.unix_ns
        now = _Moment(self._seq, delivered, self._unix_ns, snapshot.boot_ns, self._linger_ns)
        seen: dict[Attributes, dict[PointKey, _Seen]] = {}
        for resource, key, point, ended in self._naming.points(snapshot):
            one = _Seen(point, ended)
            points = seen.setdefault(resource, {})
            points[key] = points[key].merged(one, key[0]) if key in points else one

        for attributes in seen:
            if attributes not in self._resources:
                self._resources[attributes] = _Resource(attributes, self._scope)
        for attributes in list(self._resources):
            if not self._resources[attributes].update(seen.get(attributes, {}), now):
                del self._resources[attributes]
        self._let_go(seen)
        self.told = self._told(snapshot)
        bodies = filter(None, (one.serialized() for one in self._resources.values()))
        parts = tuple(split.requests(bodies, self._limit_bytes))
        return Batch(self._seq, parts, sum(one.points for one in self._resources.values()))

    def _told(self, snapshot: Snapshot) -> frozenset[Owner]:
        ended = [series for series in snapshot.series if series.ended]
        waiting = {
            series.owner
            for series in ended
            if not self._resources[self._naming.resource_of(series)].is_done
        }
        return frozenset(series.owner for series in ended) - waiting

    def _let_go(self, seen: Mapping[Attributes, object]) -> None:
        gone = [attributes for attributes in self._resources if attributes not in seen]
        for attributes in gone[: max(0, len(gone) - _HELD)]:
            del self._resources[attributes]
