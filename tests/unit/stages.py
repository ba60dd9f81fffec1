# SPDX-License-Identifier: Apache-2.0
"""All stages from kernel to Collector, as the pipeline joins them, without its clock and I/O."""

from collections.abc import Callable, Mapping
from typing import Protocol

from xpumeter.callers import Callers, Memory, Runtime
from xpumeter.enrich.attribute import attribute
from xpumeter.enrich.conservation import Audit, Difference
from xpumeter.enrich.ledger import Ledger
from xpumeter.enrich.past import with_owners
from xpumeter.enrich.places import Places
from xpumeter.export.messages import Batch, Messages
from xpumeter.model.devices import KnownDevice
from xpumeter.model.kernel import CgroupId, CgroupName, Incarnation, Reading
from xpumeter.model.series import Attribution, Snapshot
from xpumeter.retiring import Journal, Retiring

SECOND = 10**9
OFFSET = 1_700_000_000 * SECOND
"""From the boot clock to Unix time."""

LINGER_S = 60


class Kernel(Protocol):
    """As FakeKernel."""

    names: dict[CgroupId, CgroupName]

    def read(self) -> Reading:
        """As Pins."""
        ...

    def retire(self) -> object:
        """As Pins."""
        ...


class Stages:
    """One agent from its start to its death.

    Attributes:
        names: Of cgroups, as they were read last.
        difference: What the agent found when it compared rows and totals.
    """

    def __init__(
        self,
        kernel: Kernel,
        devices: Mapping[Incarnation, KnownDevice],
        *,
        runtime: Runtime | None,
        memory: Memory | None,
        journal: Journal,
        clock: Callable[[], float],
    ) -> None:
        self.kernel, self.devices, self.clock = kernel, devices, clock
        self.callers = Callers(runtime, memory, clock=clock)
        self.retiring = Retiring(journal)
        self.audit, self.places, self.ledger = Audit(), Places(), Ledger()
        self.messages = Messages(version="0", host={"host.name": "h"}, linger_s=LINGER_S)
        self.names: dict[CgroupId, CgroupName] = {}
        self.difference = Difference(0, 0)
        self._reading: Reading | None = None
        self._shown: Attribution | None = None

    def export(self, *, delivered: int, drift_ns: int = 0) -> tuple[Snapshot, Batch]:
        """Read, name, and make the batch."""
        reading, self.names = self.kernel.read(), dict(self.kernel.names)
        self.callers.update(
            {row.cgroup_id for row in reading.rows}, self.names, retired=self.retiring.identities
        )
        self.retiring.take(reading)
        past = self.retiring.past
        shown = attribute(
            reading,
            self.devices,
            self.callers.owners,
            self.callers.dead,
            settled=with_owners(past, self.callers.retired, self.callers.alive),
            given_up=past.unattributed,
            places=self.places,
        )
        to_unix_ns = OFFSET + drift_ns
        unix_ns = int(self.clock() * SECOND) + to_unix_ns
        snapshot = self.ledger.update(shown, unix_ns=unix_ns, boot_to_unix_ns=to_unix_ns)
        self.difference = self.audit.check(reading, past)
        self._reading, self._shown = reading, shown
        return snapshot, self.messages.update(snapshot, delivered=delivered)

    def retire(self) -> None:
        """After the batch was sent."""
        assert self._reading is not None
        assert self._shown is not None
        gone = self.retiring.retire(
            self.kernel,
            self._reading,
            self.callers,
            parts=self._reading.rows,
            devices=self.devices,
            shown=self._shown,
            told=self.messages.told,
        )
        self.ledger.forget(gone)
