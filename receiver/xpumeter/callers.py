# SPDX-License-Identifier: Apache-2.0
"""Who stands behind each cgroup id: the kernel's names, completed by the container runtime's.

The runtime is asked when an unknown container shows, and again, ever more rarely, while one stays
unknown; never on a schedule of its own (see `Waiting`).
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Set
from typing import Protocol

from xpumeter.enrich.cgroups import path_of
from xpumeter.enrich.identity import identify
from xpumeter.enrich.owner import Records, caller_of, is_unresolved, owner_of
from xpumeter.enrich.waiting import Waiting
from xpumeter.errors import RuntimeUnavailable
from xpumeter.model.kernel import CgroupId, CgroupName
from xpumeter.model.owners import ContainerRecord, Identity, Owner

_log = logging.getLogger(__name__)


class Runtime(Protocol):
    """What answers with the containers of this host."""

    @property
    def lists(self) -> int:
        """Lists that the last question took."""
        ...

    def records(self, wanted: Collection[str]) -> dict[str, ContainerRecord]:
        """All of them by id, or RuntimeUnavailable; `wanted` are ids and pod uids without names."""
        ...


class Memory(Protocol):
    """What outlives this agent."""

    def load(self) -> dict[str, ContainerRecord]:
        """What the one before it knew."""
        ...

    def save(self, records: Mapping[str, ContainerRecord]) -> None:
        """For the one after it."""
        ...


class Callers:
    """Owners of all that made calls. `clock` is monotonic, in seconds.

    What it holds is that of the cgroups that the kernel knows and of what is asked to be kept.

    Attributes:
        identities: Identity of each cgroup whose path is known, callers or not.
        owners: Owner of each caller whose path is known.
        retired: Owner of each identity whose rows are gone, as they were handed in.
        alive: Identities that have a cgroup: they can still call.
        dead: Callers that have none any more, as far as their path is known.
        ask_at_s: When the runtime is to be asked again; None if nobody waits for it.
    """

    def __init__(
        self,
        runtime: Runtime | None,
        memory: Memory | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime = runtime
        self._memory = memory
        self._clock = clock
        self._kept: dict[str, ContainerRecord] = memory.load() if memory else {}
        self._records = Records(self._kept.values())
        self._named: dict[Identity, Owner] = {}
        self._unnamed: Set[Identity] = frozenset()
        self._answered: Set[Identity] = frozenset()
        self._hopeless: set[Identity] = set()
        self._waiting = Waiting(clock())
        self._dead_names: dict[CgroupId, CgroupName] = {}
        self._trouble = ""
        self.identities: dict[CgroupId, Identity] = {}
        self.owners: dict[CgroupId, Owner] = {}
        self.retired: dict[Identity, Owner] = {}
        self.alive: frozenset[Identity] = frozenset()
        self.dead: frozenset[CgroupId] = frozenset()
        self.ask_at_s: float | None = None

    @property
    def unresolved(self) -> frozenset[Owner]:
        """Owners that the runtime could still name."""
        return frozenset(self._named[each] for each in self._unnamed)

    @property
    def longest_wait_s(self) -> float | None:
        """Since when the oldest of the unresolved is known; None if there is none."""
        return self._waiting.longest_s(self._clock())

    def update(
        self,
        callers: Set[CgroupId],
        names: Mapping[CgroupId, CgroupName],
        *,
        retired: Set[Identity] = frozenset(),
        may_ask: bool = True,
    ) -> None:
        """Take in who called, and ask the runtime if it may be asked and that can help now.

        `retired` are callers without rows by now, whose calls still want an owner.
        """
        self._identify(callers, names)
        wanted = {self.identities[each] for each in callers & self.identities.keys()} | retired
        new = bool(wanted - self._named.keys())
        if wanted != self._named.keys():
            self._resolve(wanted)
        if new and not self._trouble:
            self._waiting.hasten()
        may_ask = may_ask and bool(self._unnamed) and self._clock() >= self._waiting.due_s
        if self._runtime is not None and may_ask:
            self._ask(self._runtime, wanted)
        self.ask_at_s = self._waiting.due_s if self._unnamed else None
        self.owners = {
            each: self._named[self.identities[each]] for each in callers & self.identities.keys()
        }
        self.retired = {identity: self._named[identity] for identity in retired}

    def _identify(self, callers: Set[CgroupId], names: Mapping[CgroupId, CgroupName]) -> None:
        """Spell who is new, forget who is gone, see who lives."""
        there = callers | names.keys()
        # The number of a cgroup that is gone may come again, for another.
        if any(names.get(each, was) != was for each, was in self._dead_names.items()):
            self.identities.clear()
        self._dead_names = {name.cgroup_id: name for name in names.values() if name.dead}
        for cgroup_id in there - self.identities.keys():
            path = path_of(cgroup_id, names)
            if path is not None:
                self.identities[cgroup_id] = caller_of(identify(path))
        for cgroup_id in self.identities.keys() - there:
            del self.identities[cgroup_id]
        self.alive = frozenset(
            self.identities[each.cgroup_id]
            for each in names.values()
            if not each.dead and each.cgroup_id in self.identities
        )
        # A container lives as long as its own cgroup, whatever becomes of those that it makes; and
        # the kernel forgets the names of none but the dead.
        self.dead = frozenset(
            each
            for each in callers & self.identities.keys()
            if self.identities[each] not in self.alive
        )

    @property
    def unanswered(self) -> frozenset[Owner]:
        """Owners without all names of whom the runtime has not answered yet."""
        if self._runtime is None:
            return frozenset()
        return frozenset(
            owner
            for identity, owner in self._named.items()
            if identity not in self._answered and is_unresolved(owner)
        )

    def _ask(self, runtime: Runtime, wanted: Set[Identity]) -> None:
        ids = {each.container_id or each.pod_uid or "" for each in self._unnamed}
        try:
            found = runtime.records(ids)
        except RuntimeUnavailable as error:
            self._report(str(error))
        else:
            self._report("")
            self._records = Records({**self._kept, **found}.values())
            self._answered |= wanted
            self._resolve(wanted)
            gone = self._unnamed - self.alive
            self._hopeless |= self._waiting.hopeless(gone, self._clock())
            self._wait(wanted)
        self._waiting.asked(runtime.lists, self._clock())

    def _resolve(self, wanted: Set[Identity]) -> None:
        """Name every caller, and keep what that took: the record may go, the calls stay."""
        records = {identity: self._records.of(identity) for identity in wanted}
        self._named = {identity: owner_of(identity, record) for identity, record in records.items()}
        self._wait(wanted)
        kept = {record.container_id: record for record in records.values() if record is not None}
        if kept != self._kept:
            self._kept = kept
            if self._memory is not None:
                self._memory.save(kept)

    def _wait(self, wanted: Set[Identity]) -> None:
        self._answered &= wanted
        self._hopeless &= wanted
        # Without a runtime nobody waits: it is a mode.
        if self._runtime is not None:
            self._unnamed = {
                each for each in wanted - self._hopeless if is_unresolved(self._named[each])
            }
            self._waiting.are(self._unnamed, self._clock())

    def _report(self, trouble: str) -> None:
        """One line when it changes."""
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if trouble:
            _log.warning(
                "event=runtime_unavailable reason=%r consequence='names come later'", trouble
            )
        else:
            _log.info("event=runtime_answers")
