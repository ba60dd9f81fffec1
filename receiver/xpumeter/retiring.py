# SPDX-License-Identifier: Apache-2.0
"""Lets the kernel forget the rows of the dead, and no sum change by it.

In each period the rows that the kernel offers are written into a journal, with all that they have;
only then is the kernel told to delete them. At the next reading each is a row still, or it is gone,
and what the journal has of it counts in its place. Whenever the agent is killed, the next one has
the journal and the rows, and comes to the same sums.

What is decided counts when it is written: until then the journal's state is the one that holds.
"""

import logging
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from typing import Protocol

from xpumeter.callers import Callers
from xpumeter.enrich.kind_history import key_of
from xpumeter.enrich.leaving import SELECT_ALL, leaving
from xpumeter.enrich.past import let_go, result_of, settle, sum_of, with_owners
from xpumeter.model.devices import KnownDevice
from xpumeter.model.kernel import CgroupId, Incarnation, Reading, Row, RowKey
from xpumeter.model.owners import Identity, Owner
from xpumeter.model.past import Past, Pending, Sum
from xpumeter.model.selection import Selection
from xpumeter.model.series import Attribution

_log = logging.getLogger(__name__)


class Journal(Protocol):
    """What outlives this agent."""

    def load(self) -> Past:
        """What the one before it saved."""
        ...

    def save(self, past: Past) -> bool:
        """For the one after it; whether it is written."""
        ...


class Pins(Protocol):
    """The kernel's side."""

    def retire(self) -> object:
        """Delete what the last reading offered; None if this user may not."""
        ...


class Retiring:
    """What rows had that are gone.

    Attributes:
        past: As of the last reading that was taken in; nothing in it is pending.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._written = journal.load()
        self._refused = False
        self.past = Past()

    @property
    def identities(self) -> frozenset[Identity]:
        """Callers whose rows are gone or may be: their calls still want an owner."""
        pending = {each.identity for each in self._written.pending}
        return frozenset(each for each in self._written.settled.keys() | pending if each)

    def take(self, reading: Reading) -> None:
        """Settle what is gone by this reading."""
        self.past = settle(self._written, reading.rows)

    def retire(
        self,
        pins: Pins,
        reading: Reading,
        callers: Callers,
        *,
        parts: Iterable[Row],
        named: bool = True,
        devices: Mapping[Incarnation, KnownDevice],
        shown: Attribution,
        told: Set[Owner],
        unanswered: Set[Owner] = frozenset(),
        selection: Selection = SELECT_ALL,
    ) -> frozenset[Owner]:
        """Have the kernel delete what the reading offered, once it is in the journal.

        Gives the owners of whom nothing is kept any more: they have ended, and who of them calls
        again is another series.

        `parts` are the reading's rows, cut where the kind of their call changed. Where nobody is
        `named`, callers are not told apart.
        `shown` is what was exported of the reading, `told` the owners whose end was delivered: of
        these nothing is kept but the number of calls. `unanswered` are owners that a filter by
        name waits for.

        Raises:
            NotAttached: Somebody detached.
        """
        present = set(callers.owners.values())
        settled = with_owners(self.past, callers.retired, callers.alive)
        gone = leaving(
            settled, present, devices, shown, told, unanswered=unanswered, selection=selection
        )
        offered = {key_of(row): sum_of(row) for row in reading.rows if row.offered}
        identities = callers.identities if named else {}
        pending = tuple(
            _pending(part, offered, identities, devices) for part in parts if part.offered
        )
        new = replace(let_go(self.past, gone), pending=pending)
        if new != self._written:
            if not self._journal.save(new):
                return frozenset()
            self._written = new
        # Also with no row to delete: names of cgroups that are gone by now may be left.
        if pins.retire() is None and not self._refused:
            _log.warning(
                "event=not_retiring reason='the pins belong to another user' "
                "consequence='rows of containers that are gone stay in the kernel'"
            )
            self._refused = True
        left = {each.owner for each in settled if each.owner and each.identity in gone}
        return frozenset(left - {each.owner for each in settled if each.identity not in gone})


def _pending(
    part: Row,
    offered: Mapping[RowKey, Sum],
    identities: Mapping[CgroupId, Identity],
    devices: Mapping[Incarnation, KnownDevice],
) -> Pending:
    device, key = devices.get(part.device), key_of(part)
    # What is on a device that nobody knows is in no series, whoever called.
    identity = identities.get(part.cgroup_id) if device else None
    result = result_of(part, device.kinds if device else {})
    return Pending(key, identity, result, sum_of(part), offered[key])
