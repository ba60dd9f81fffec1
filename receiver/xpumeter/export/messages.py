# SPDX-License-Identifier: Apache-2.0
"""A snapshot in, bytes of OTLP out: one Resource per (owner, device).

OpenTelemetry's SDK holds one Resource per provider and never forgets a series (decision 8). So the
messages are ours: kept from one snapshot to the next and changed in place.

What is told of each point, from its first value to its end, is in `lives`.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    DataPointFlags,
    Gauge,
    Metric,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from xpumeter.export import catalog, split
from xpumeter.export.lives import Life, Moment, Seen, State
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


@dataclass(slots=True)
class _Group:
    """What a snapshot shows of one Resource, in its order; a key may come twice.

    `ended` are the places of points whose owner is gone: none, as a rule.
    """

    keys: list[PointKey] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)

    def by_key(self) -> dict[PointKey, Seen]:
        """Each key once: points with all attributes in common are added up."""
        seen: dict[PointKey, Seen] = {}
        ended = set(self.ended)
        for place, (key, point) in enumerate(zip(self.keys, self.points, strict=True)):
            one = Seen(point, place in ended)
            seen[key] = seen[key].merged(one, key[0]) if key in seen else one
        return seen


class _Resource:
    """The message of one Resource, rebuilt when points come or go, else changed in place.

    Attributes:
        points: How many it has.
    """

    def __init__(self, attributes: Attributes, scope: InstrumentationScope) -> None:
        self._attributes = attributes
        self._scope = scope
        self._series: dict[PointKey, Life] = {}
        self._keys: list[PointKey] = []
        self._message = ResourceMetrics()
        self.points = 0

    def update(self, group: _Group, now: Moment) -> bool:
        """Take over what the snapshot shows. False if nothing is left to say, now or later."""
        # As a rule the same points live on. Then nothing need be looked up, which is most of the
        # cost with thousands of series.
        alive = bool(group.keys) and not group.ended
        if alive and group.keys == self._keys:
            self._live_on(group.points, now)
            return True
        left = self._update(group.by_key(), now)
        self._keys = group.keys if alive and group.keys == list(self._series) else []
        return left

    def _live_on(self, points: list[Point], now: Moment) -> None:
        for series, point, (metric, _) in zip(
            self._series.values(), points, self._keys, strict=True
        ):
            assert series.message is not None  # noqa: S101
            series.message.time_unix_nano = now.unix_ns
            if point != series.point:
                series.point, series.since = point, now.seq
                _fill(series, metric)

    def _update(self, seen: Mapping[PointKey, Seen], now: Moment) -> bool:
        for key in seen:
            if key not in self._series:
                self._series[key] = Life()
        turned = [series.advance(seen.get(key), now) for key, series in self._series.items()]
        anew = any(turned)
        if len(self._series) > len(seen):
            # What the snapshot still lists as ended stays known, or it would begin again.
            self._series = {
                key: series
                for key, series in self._series.items()
                if key in seen or series.state is not State.DONE
            }
        if anew:
            self._rebuild()
        for (metric, _), series in self._series.items():
            if series.message is not None:
                series.message.time_unix_nano = now.unix_ns
                if anew or series.since == now.seq:
                    _fill(series, metric)
        return bool(self._series)

    @property
    def is_done(self) -> bool:
        """Whether the markers of all its points were delivered."""
        return all(series.state is State.DONE for series in self._series.values())

    def serialized(self) -> bytes:
        """Bytes of the ResourceMetrics; empty if it has no points."""
        return self._message.SerializeToString()

    def _rebuild(self) -> None:
        self._message = ResourceMetrics()
        live: dict[catalog.Metric, list[PointKey]] = {}
        marked: list[PointKey] = []
        for key, series in self._series.items():
            series.message = None
            if series.state is State.LIVE:
                live.setdefault(key[0], []).append(key)
            elif series.state is State.MARKED:
                marked.append(key)
        self.points = sum(map(len, live.values())) + len(marked)
        if not self.points:
            return
        message = ResourceMetrics(schema_url=catalog.SCHEMA_URL)
        message.resource.attributes.extend(key_values(self._attributes))
        scope = message.scope_metrics.add(schema_url=catalog.SCHEMA_URL, scope=self._scope)
        # Collectors up to 0.161 leave a Metric at its first marker: each has one of its own.
        metrics = [*live.values(), *([key] for key in marked)]
        for keys in metrics:
            _add_metric(scope, keys)
        # Read from its bytes a message takes half the memory of the same one made bit by bit.
        self._message = ResourceMetrics.FromString(message.SerializeToString())
        for metric, keys in zip(self._message.scope_metrics[0].metrics, metrics, strict=True):
            for key, point in zip(keys, _data_of(metric).data_points, strict=True):
                self._series[key].message = point


def _add_metric(scope: ScopeMetrics, keys: list[PointKey]) -> None:
    metric = keys[0][0]
    message = scope.metrics.add(name=metric.name, description=metric.description, unit=metric.unit)
    if metric.instrument is catalog.Instrument.GAUGE:
        message.gauge.SetInParent()
    else:
        message.sum.is_monotonic = metric.monotonic
        message.sum.aggregation_temporality = _CUMULATIVE
    for key in keys:
        _data_of(message).data_points.add(attributes=key_values(key[1]))


def _data_of(message: Metric) -> Gauge | Sum:
    return message.gauge if message.HasField("gauge") else message.sum


def _fill(series: Life, metric: catalog.Metric) -> None:
    message, point = series.message, series.point
    assert message is not None and point is not None  # noqa: S101, PT018
    message.start_time_unix_nano = point.start_unix_ns
    if series.state is State.MARKED:
        message.flags = DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
    elif metric.unit == "s":
        message.as_double = point.value / 1e9
    else:
        message.as_int = point.value


@contextmanager
def _no_search_for_garbage() -> Iterator[None]:
    """With thousands of series Python would search them for cycles, of which there are none.

    That takes a quarter of the time. What is made here lives until the next batch at least.
    """
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()


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
        with _no_search_for_garbage():
            return self._update(snapshot, delivered)

    def _update(self, snapshot: Snapshot, delivered: int) -> Batch:
        self._seq += 1
        if not self._unix_ns - _HOLD_NS < snapshot.unix_ns < self._unix_ns:
            self._unix_ns = snapshot.unix_ns
        now = Moment(self._seq, delivered, self._unix_ns, snapshot.boot_ns, self._linger_ns)
        seen: dict[Attributes, _Group] = {}
        last: Attributes | None = None
        for resource, key, point, ended in self._naming.points(snapshot):
            if resource is not last:
                group, last = seen.setdefault(resource, _Group()), resource
            if ended:
                group.ended.append(len(group.keys))
            group.keys.append(key)
            group.points.append(point)

        for attributes in seen:
            if attributes not in self._resources:
                self._resources[attributes] = _Resource(attributes, self._scope)
        nothing = _Group()
        for attributes in list(self._resources):
            if not self._resources[attributes].update(seen.get(attributes, nothing), now):
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
