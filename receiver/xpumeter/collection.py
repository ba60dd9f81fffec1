# SPDX-License-Identifier: Apache-2.0
"""One collection: from what the kernel counted to what is exported, source -> enrich.

The state that outlives it is that of its parts; each says in its own file what it keeps.
"""

import logging
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import replace

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
from xpumeter.forms import AUTO, NONE
from xpumeter.kind_keeper import KindKeeper
from xpumeter.model.calls import Reason
from xpumeter.model.kernel import CgroupId, Losses, Reading
from xpumeter.model.owners import Identity, Owner
from xpumeter.model.series import Attribution, Snapshot
from xpumeter.model.stats import AgentStats, Request
from xpumeter.retiring import Retiring
from xpumeter.source import layout
from xpumeter.source.cri import Runtime
from xpumeter.source.journal import Journal
from xpumeter.source.kinds_file import KindsFile
from xpumeter.source.layout import Hierarchy
from xpumeter.source.memory import Memory
from xpumeter.source.pins import Pins

_log = logging.getLogger(__name__)


class Collection:
    """Reads what is pinned, and says whose calls those were.

    Where containers are on no hierarchy of cgroups that is known here, nobody is named: the
    kernel's ids say nothing of pods then. `on_request` is told of each request to the container
    runtime; `attached_unix_ns` is when counting began.
    """

    def __init__(
        self,
        config: Config,
        pins: Pins,
        *,
        attached_unix_ns: int,
        on_request: Callable[[Request], None],
    ) -> None:
        self._pins = pins
        self._hierarchy = pins.meta.hierarchy
        v2 = self._hierarchy == Hierarchy.V2
        self._nobody = Reason.UNKNOWN_CGROUP if v2 else Reason.CGROUP_V1
        if self._hierarchy == Hierarchy.V1:
            _log.warning("event=cgroup_v1 consequence='calls have no owner on this host'")
        receiver = config.receiver
        attach_id = pins.meta.attach_id
        self._devices = Devices(drivers.load(receiver.driver_tables))
        self._runtime = _runtime(receiver.runtime_endpoint, on_request)
        self._memory = Memory(receiver.state, attach_id)
        self._callers = Callers(self._runtime, self._memory)
        self._kinds_file = KindsFile(receiver.state, attach_id)
        self._kinds = KindKeeper(self._kinds_file)
        self._journal = Journal(receiver.state, attach_id)
        self._retiring = Retiring(self._journal)
        self._audit, self._places, self._ledger = Audit(), Places(), Ledger()
        self._selection = config.processors.filter.selection
        self._read_ns = 0
        self._cut = self._reading = Reading((), (), (), Losses())
        self._shown: Attribution | None = None
        self._attached_unix_ns = attached_unix_ns

    @property
    def looked_s(self) -> float:
        """When the kernel was last looked at, on the monotonic clock; 0 before."""
        return self._read_ns / 1e9

    @property
    def ask_at_s(self) -> float | None:
        """When it is worth another look, since the runtime may be asked again; None if not."""
        return self._callers.ask_at_s

    def close(self) -> None:
        """Let go of the runtime."""
        if self._runtime:
            self._runtime.close()

    def look(self, *, may_ask: bool = True) -> Reading:
        """Read the kernel, and learn who and what is new.

        Raises:
            NotAttached: Somebody detached.
        """
        self._read_ns = time.monotonic_ns()
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

    def collect(self, *, may_ask: bool = True) -> Snapshot:
        """Look, and give what is to be exported.

        Raises:
            NotAttached: Somebody detached.
        """
        reading = self.look(may_ask=may_ask)
        self._retiring.take(reading)
        past, devices, owners = self._retiring.past, self._devices.known, self._owners()
        boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        cut = self._kinds.keep(reading, devices, boot_ns=boot_ns)
        attribution = attribute(
            cut,
            devices,
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
        waiting = self._unanswered()
        attribution = leave_out(attribution, self._selection, waiting)
        unix_ns = time.time_ns()
        snapshot = self._ledger.update(
            attribution,
            unix_ns=unix_ns,
            boot_to_unix_ns=unix_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        )
        flying = leave_out_in_flight(
            in_flight(reading.open, devices, owners, now_ns=self._read_ns),
            attribution.devices,
            self._selection,
            waiting,
        )
        self._reading, self._cut, self._shown = reading, cut, attribution
        return add_in_flight(snapshot, flying, since_unix_ns=self._attached_unix_ns)

    def retire(self, told: Set[Owner]) -> None:
        """Have the kernel let go of the rows of the dead that the last collection had.

        `told` are the owners whose end has been delivered.
        """
        if self._shown is not None:
            gone = self._retiring.retire(
                self._pins,
                self._reading,
                self._callers,
                parts=self._cut.rows,
                named=self._hierarchy != Hierarchy.V1,
                devices=self._devices.known,
                shown=self._shown,
                told=told,
                unanswered=self._unanswered(),
                selection=self._selection,
            )
            self._ledger.forget(gone)

    def _unanswered(self) -> frozenset[Owner]:
        """Owners that a filter by name waits for."""
        return self._callers.unanswered if self._selection.by_name else frozenset()

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

    def stats(self, before: AgentStats | None) -> AgentStats:
        """What the last collection says of the agent; a fault is logged when it is new."""
        reading = self._reading
        difference = self._audit.check(reading, self._retiring.past)
        if any(difference) and not (before and before.missing):
            _log.error(
                "event=calls_missing calls=%d surplus=%d consequence='rows do not add up'",
                *difference,
            )
        return AgentStats(
            rows=len(reading.rows),
            row_limit=layout.ROW_LIMIT,
            refused=sum(total.refused for total in reading.totals),
            losses=reading.losses,
            missing=sum(difference),
            bad_records=self._bad_records(),
            unresolved=len(self._callers.unresolved),
            unresolved_age_s=self._callers.longest_wait_s,
            hook=self._pins.hook,
            object_sha256=self._pins.meta.object_sha256.hex(),
        )

    def _bad_records(self) -> int:
        runtime = self._runtime.bad_records if self._runtime else 0
        files = (self._memory, self._journal, self._kinds_file)
        return self._devices.bad + runtime + sum(each.bad_records for each in files)


def _runtime(endpoint: str, on_request: Callable[[Request], None]) -> Runtime | None:
    if endpoint == NONE:
        return None
    return Runtime(None if endpoint == AUTO else endpoint, on_request=on_request)
