# SPDX-License-Identifier: Apache-2.0
"""The loop that collects and exports.

It sleeps until the kernel opens a row, a name is worth asking for again, or a period is over. It
never waits for the Collector (the sender has a thread), nor for the runtime beyond its deadline.
"""

import logging
import math
import select
import time
from dataclasses import replace
from importlib.metadata import version
from typing import Protocol, Self

from xpumeter.collection import Collection
from xpumeter.config import Config
from xpumeter.errors import HostError
from xpumeter.health import Health
from xpumeter.model.stats import AgentStats
from xpumeter.outlets import Outlets
from xpumeter.serving import Serving
from xpumeter.source import host
from xpumeter.source.misses import Misses
from xpumeter.source.pins import Pins
from xpumeter.source.ring import Ring, why_refused

_log = logging.getLogger(__name__)

_FIRST_EXPORT_S = 1.0
"""From the start to the first export: what was counted before is known at once."""

_GATHER_S = 0.1
"""From the first call of a row to the look at it: rows that open together are looked at once, and a
container that lives a moment is asked for while its runtime knows it."""

_LOOK_PAUSE_S = 0.5
"""Between two looks that the ring asks for, however many rows open."""

_POLL_S = 1.0
"""Between two looks where no ring wakes."""


class Stop(Protocol):
    """Tells the loop to end."""

    def __bool__(self) -> bool:
        """It is time to stop."""
        ...

    def fileno(self) -> int:
        """Readable once it is time, for select(2)."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Sleep; True if it is time to stop."""
        ...


class Pipeline:
    """Collects and exports. Use as a context manager: the last values go out at the end.

    `misses` are the programs that were opened while that was allowed; closed with the pipeline.

    Raises:
        HostError: An address to listen on cannot be had.
    """

    def __init__(self, config: Config, pins: Pins, *, misses: Misses | None = None) -> None:
        self._serving = Serving(config)  # what is wrong with it is known before anything runs
        self._interval_s = config.receiver.collection_interval_s
        self._misses = misses
        self._health = Health(self._interval_s, pins.check)
        self._ring = _open_ring(config)
        self._version = version("xpumeter")
        self._stats: AgentStats | None = None
        to_unix_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        attached_unix_ns = pins.meta.attached_boot_ns + to_unix_ns
        self._outlets = Outlets(
            config,
            lambda: self._stats,
            version=self._version,
            host=host.attributes(),
            attached_unix_ns=attached_unix_ns,
        )
        self._collection = Collection(
            config,
            pins,
            attached_unix_ns=attached_unix_ns,
            on_request=self._outlets.requested,
        )
        self._serving.start(
            alive=self._health.alive, ready=self._health.ready, metrics=self._outlets.metrics
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._outlets.close()
        self._serving.close()
        if self._misses:
            self._misses.close()
        if self._ring:
            self._ring.close()
        self._collection.close()

    def run(self, stop: Stop) -> None:
        """Until told to stop, and once more then.

        Raises:
            NotAttached: Somebody detached; what was counted before is in the last batch.
        """
        next_export_s = time.monotonic() + _FIRST_EXPORT_S
        while not stop:
            if self._wait(stop, until_s=min(next_export_s, self._next_look_s())):
                stop.wait(
                    max(_GATHER_S, self._collection.looked_s + _LOOK_PAUSE_S - time.monotonic())
                )
            late_s = time.monotonic() - next_export_s
            if late_s < 0:
                self._collection.look()
            else:
                self._export()
                # On the beat, however long a period took; missed beats are left out.
                next_export_s += self._interval_s * (1 + late_s // self._interval_s)
        self._export(may_ask=False)

    def _wait(self, stop: Stop, *, until_s: float) -> bool:
        """Sleep; True if a row was opened meanwhile."""
        timeout_s = max(0.0, until_s - time.monotonic())
        if self._ring is None:
            stop.wait(timeout_s)
            return False
        select.select([self._ring.fileno(), stop.fileno()], [], [], timeout_s)
        return bool(self._ring.take())

    def _next_look_s(self) -> float:
        asks_s = self._collection.ask_at_s
        if not self._ring:
            return time.monotonic() + _POLL_S
        return math.inf if asks_s is None else asks_s

    def _export(self, *, may_ask: bool = True) -> None:
        began_s = time.monotonic()
        snapshot = self._collection.collect(may_ask=may_ask)
        ring_bad = self._ring.bad_records if self._ring else 0
        stats = self._collection.stats(self._stats)
        self._stats = replace(
            stats,
            missed=self._misses.read() if self._misses else {},
            bad_records=stats.bad_records + ring_bad,
            exports=self._outlets.exports,
            version=self._version,
        )
        self._outlets.send(snapshot)
        self._health.collected()
        self._outlets.collected(time.monotonic() - began_s)
        self._collection.retire(self._outlets.told)


def _open_ring(config: Config) -> Ring | None:
    try:
        return Ring(config.receiver.pins)
    except OSError as error:
        reason = why_refused(error)
    except HostError as error:  # no libbpf: reading rows takes none
        reason = str(error)
    _log.info("event=no_ring reason=%r consequence='rows are read each second'", reason)
    return None
