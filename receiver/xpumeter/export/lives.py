# SPDX-License-Identifier: Apache-2.0
"""What is told of one point from batch to batch: that it lives, its end, and then nothing.

The end is told in two steps, since a Collector forgets a series at the second: first its last
value, until a batch with it was delivered; then a point without a recorded value, the marker, until
a batch with that was delivered.
"""

import operator
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint

from xpumeter.export import catalog
from xpumeter.model.series import Point


class State(Enum):
    """What the next batch has of a point: a value, a marker, or nothing."""

    LIVE = auto()
    MARKED = auto()
    DONE = auto()


class Seen(NamedTuple):  # one per point and batch: a dataclass takes twice the time
    """A point as the snapshot shows it."""

    point: Point
    ended: bool

    def merged(self, other: "Seen", metric: catalog.Metric) -> "Seen":
        """Of two points that have all attributes in common: their sum; of ages the larger."""
        combine = max if metric.instrument is catalog.Instrument.GAUGE else operator.add
        value = combine(self.point.value, other.point.value)
        start_unix_ns = min(self.point.start_unix_ns, other.point.start_unix_ns)
        return Seen(Point(value, start_unix_ns), self.ended and other.ended)


@dataclass(frozen=True, slots=True)
class Moment:
    """What a batch knows of its time: its number, the newest that was delivered, the clocks."""

    seq: int
    delivered: int
    unix_ns: int
    boot_ns: int
    linger_ns: int


@dataclass(slots=True)
class Life:
    """One point from batch to batch.

    `since` is the first batch that had this value or this marker; `ended_boot_ns` when the end was
    seen first.
    """

    point: Point | None = None
    state: State = State.DONE
    since: int = 0
    ended_boot_ns: int | None = None
    message: NumberDataPoint | None = None

    def advance(self, seen: Seen | None, now: Moment) -> bool:
        """Move on to what the next batch says; `seen` is None if the snapshot lacks the series.

        Whether it is another kind of point now, or none.
        """
        before = self.state
        self._advance(seen, now)
        return self.state is not before

    def _advance(self, seen: Seen | None, now: Moment) -> None:
        changed = seen is not None and seen.point != self.point
        if seen is not None and (changed or not seen.ended):
            if changed or self.state is not State.LIVE:
                self.since = now.seq
            self.point, self.state, self.ended_boot_ns = seen.point, State.LIVE, None
        if seen is not None and not seen.ended:
            return
        if seen is not None and self.ended_boot_ns is None:
            self.ended_boot_ns = now.boot_ns
        delivered = now.delivered >= self.since
        # What the snapshot lacks got another name. It never waits, not even until it was
        # delivered: its calls are in the other series by now.
        due = seen is None or (delivered and self._lingered(now))
        if self.state is State.MARKED and delivered:
            self.state = State.DONE
        elif self.state is State.LIVE and due:
            self.state, self.since = State.MARKED, now.seq

    def _lingered(self, now: Moment) -> bool:
        return now.boot_ns - (self.ended_boot_ns or 0) >= now.linger_ns
