# SPDX-License-Identifier: Apache-2.0
"""The one place that joins the stages, source -> enrich -> export, and the loop that drives them.

It sleeps until the kernel opens a row, a name is worth asking for again, or a period is over. It
never waits for the Collector (the sender has a thread), nor for the runtime beyond its deadline.
"""

import logging
import math
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Protocol, Self

from xpumeter import drivers
from xpumeter.callers import Callers
from xpumeter.config import Config
from xpumeter.devices import Devices
from xpumeter.enrich.attribute import attribute
from xpumeter.enrich.conservation import Audit
from xpumeter.enrich.in_flight import add_in_flight, in_flight
from xpumeter.enrich.leave_out import leave_out, leave_out_in_flight
from xpumeter.enrich.ledger import Ledger
from xpumeter.enrich.past import with_owners
from xpumeter.enrich.places import Places
from xpumeter.errors import HostError
from xpumeter.forms import AUTO, NONE
from xpumeter.health import Health
from xpumeter.kind_keeper import KindKeeper
from xpumeter.model.calls import Reason
from xpumeter.model.kernel import CgroupId, Reading
from xpumeter.model.owners import Identity, Owner
from xpumeter.model.stats import AgentStats, Request
from xpumeter.outlets import Outlets
from xpumeter.retiring import Retiring
from xpumeter.serving import Serving
from xpumeter.source import host, layout
from xpumeter.source.cri import Runtime
from xpumeter.source.journal import Journal
from xpumeter.source.kinds_file import KindsFile
from xpumeter.source.layout import Hierarchy
from xpumeter.source.memory import Memory
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
    """Reads, names, exports. Use as a context manager: the last values go out at the end.

    Where containers are on no hierarchy of cgroups that is known here, nobody is named: the
    kernel's ids say nothing of pods then. `misses` are the programs that were opened while that was
    allowed; closed with the pipeline.

    Raises:
        HostError: An address to listen on cannot be had.
    """

    def __init__(self, config: Config, pins: Pins, *, misses: Misses | None = None) -> None:
        self._serving = Serving(config)  # what is wrong with it is known before anything runs
        self._interval_s = config.receiver.collection_interval_s
        self._pins = pins
        self._misses = misses
        self._health = Health(self._interval_s, pins.check)
        self._hierarchy = pins.meta.hierarchy
        v2 = self._hierarchy == Hierarchy.V2
        self._nobody = Reason.UNKNOWN_CGROUP if v2 else Reason.CGROUP_V1
        if self._hierarchy == Hierarchy.V1:
            _log.warning("event=cgroup_v1 consequence='calls have no owner on this host'")
        self._ring = _open_ring(config)
        self._devices = Devices(drivers.load(config.receiver.driver_tables))
        self._version = version("xpumeter")
        self._stats: AgentStats | None = None
        self._attached_unix_ns = pins.meta.attached_boot_ns + _boot_to_unix_ns()
        self._outlets = Outlets(
            config,
            lambda: self._stats,
            version=self._version,
            host=host.attributes(),
            attached_unix_ns=self._attached_unix_ns,
        )
        self._runtime = _runtime(config.receiver.runtime_endpoint, self._outlets.requested)
        self._memory = Memory(config.receiver.state, pins.meta.attach_id)
        self._callers = Callers(self._runtime, self._memory)
        self._kinds_file = KindsFile(config.receiver.state, pins.meta.attach_id)
        self._kinds = KindKeeper(self._kinds_file)
        self._journal = Journal(config.receiver.state, pins.meta.attach_id)
        self._retiring = Retiring(self._journal)
        self._audit = Audit()
        self._places = Places()
        self._ledger = Ledger()
        self._selection = config.processors.filter.selection
        self._read_ns = 0
        self._looked_s = -math.inf
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
        if self._runtime:
            self._runtime.close()

    def run(self, stop: Stop) -> None:
        """Until told to stop, and once more then.

        Raises:
            NotAttached: Somebody detached; what was counted before is in the last batch.
        """
        next_export_s = time.monotonic() + _FIRST_EXPORT_S
        while not stop:
            if self._wait(stop, until_s=min(next_export_s, self._next_look_s())):
                stop.wait(max(_GATHER_S, self._looked_s + _LOOK_PAUSE_S - time.monotonic()))
            late_s = time.monotonic() - next_export_s
            if late_s < 0:
                self._look()
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
        asks_s = self._callers.ask_at_s
        if not self._ring:
            return time.monotonic() + _POLL_S
        return math.inf if asks_s is None else asks_s

    def _look(self, *, may_ask: bool = True) -> Reading:
        """Read the kernel, and learn who and what is new."""
        self._read_ns = time.monotonic_ns()
        self._looked_s = self._read_ns / 1e9
        reading = self._pins.read()
        # A call that hangs may be its caller's first, and has no row then.
        callers = {row.cgroup_id for row in reading.rows}
        callers |= {call.cgroup_id for call in reading.open}
        self._callers.update(
            callers, self._pins.cgroups(), retired=self._retiring.identities, may_ask=may_ask
        )
        called = {row.device for row in reading.rows} | {call.device for call in reading.open}
        # Also those of which all rows are gone. 0 is what got no number, and never gets a name.
        called |= {total.device for total in reading.totals}
        self._devices.update(called, self._pins.devices)
        return reading

    def _export(self, *, may_ask: bool = True) -> None:
        began_s = time.monotonic()
        reading = self._look(may_ask=may_ask)
        self._retiring.take(reading)
        past = self._retiring.past
        owners = self._owners()
        boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        cut = self._kinds.keep(reading, self._devices.known, boot_ns=boot_ns)
        attribution = attribute(
            cut,
            self._devices.known,
            owners,
            self._callers.dead,
            settled=with_owners(past, self._retired(), self._callers.alive),
            given_up=past.unattributed,
            attached_boot_ns=self._pins.meta.attached_boot_ns,
            nobody=self._nobody,
            places=self._places,
        )
        every_device = {**self._devices.idle, **attribution.devices}
        attribution = replace(attribution, devices=every_device)
        waiting = self._callers.unanswered if self._selection.by_name else frozenset()
        attribution = leave_out(attribution, self._selection, waiting)
        unix_ns = time.time_ns()
        snapshot = self._ledger.update(
            attribution,
            unix_ns=unix_ns,
            boot_to_unix_ns=unix_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        )
        flying = leave_out_in_flight(
            in_flight(reading.open, self._devices.known, owners, now_ns=self._read_ns),
            attribution.devices,
            self._selection,
            waiting,
        )
        snapshot = add_in_flight(snapshot, flying, since_unix_ns=self._attached_unix_ns)
        self._account(reading)
        self._outlets.send(snapshot)
        self._health.collected()
        self._outlets.collected(time.monotonic() - began_s)
        self._retiring.retire(
            self._pins,
            reading,
            self._callers,
            parts=cut.rows,
            devices=self._devices.known,
            shown=attribution,
            told=self._outlets.told,
            selection=self._selection,
        )

    def _owners(self) -> Mapping[CgroupId, Owner]:
        """Whose calls those of a cgroup are, where its hierarchy can tell.

        In the root of a v1 hierarchy is who was put into none of its cgroups: it may be anybody.
        """
        if self._hierarchy == Hierarchy.V2:
            return self._callers.owners
        if self._hierarchy == Hierarchy.V1:
            return {}
        owners = self._callers.owners
        return {cgroup: owner for cgroup, owner in owners.items() if owner.cgroup != "/"}

    def _retired(self) -> Mapping[Identity, Owner]:
        return {} if self._hierarchy == Hierarchy.V1 else self._callers.retired

    def _account(self, reading: Reading) -> None:
        difference = self._audit.check(reading, self._retiring.past)
        if any(difference) and not (self._stats and self._stats.missing):
            _log.error(
                "event=calls_missing calls=%d surplus=%d consequence='rows do not add up'",
                *difference,
            )
        self._stats = AgentStats(
            rows=len(reading.rows),
            row_limit=layout.ROW_LIMIT,
            refused=sum(total.refused for total in reading.totals),
            losses=reading.losses,
            missing=sum(difference),
            missed=self._misses.read() if self._misses else {},
            bad_records=self._bad_records(),
            unresolved=len(self._callers.unresolved),
            unresolved_age_s=self._callers.longest_wait_s,
            exports=self._outlets.exports,
            hook=self._pins.hook,
            version=self._version,
            object_sha256=self._pins.meta.object_sha256.hex(),
        )

    def _bad_records(self) -> int:
        ring = self._ring.bad_records if self._ring else 0
        runtime = self._runtime.bad_records if self._runtime else 0
        kept = self._memory.bad_records + self._journal.bad_records
        files = kept + self._kinds_file.bad_records
        return self._devices.bad + files + ring + runtime


def _boot_to_unix_ns() -> int:
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _runtime(endpoint: str, on_request: Callable[[Request], None]) -> Runtime | None:
    if endpoint == NONE:
        return None
    return Runtime(None if endpoint == AUTO else endpoint, on_request=on_request)


def _open_ring(config: Config) -> Ring | None:
    try:
        return Ring(config.receiver.pins)
    except OSError as error:
        reason = why_refused(error)
    except HostError as error:  # no libbpf: reading rows takes none
        reason = str(error)
    _log.info("event=no_ring reason=%r consequence='rows are read each second'", reason)
    return None
