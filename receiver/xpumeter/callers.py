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
from xpumeter.enrich.owner import Records, is_unresolved, owner_of
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
    """Owners of all cgroups that made calls. `clock` is monotonic, in seconds.

    Attributes:
        owners: Owner of each caller whose path is known.
        dead: Callers whose cgroup is gone.
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
        self._identities: dict[CgroupId, Identity] = {}
        self._unnamed: dict[CgroupId, Identity] = {}
        self._kept: dict[str, ContainerRecord] = memory.load() if memory else {}
        self._records = Records(self._kept.values())
        self._waiting = Waiting(clock())
        self._trouble = ""
        self.owners: dict[CgroupId, Owner] = {}
        self.dead: frozenset[CgroupId] = frozenset()
        self.ask_at_s: float | None = None

    @property
    def unresolved(self) -> frozenset[Owner]:
        """Owners that the runtime could still name."""
        return frozenset(self.owners[each] for each in self._unnamed)

    @property
    def longest_wait_s(self) -> float | None:
        """Since when the oldest of the unresolved is known; None if there is none."""
        return self._waiting.longest_s(self._clock())

    def update(
        self, callers: Set[CgroupId], names: Mapping[CgroupId, CgroupName], *, may_ask: bool = True
    ) -> None:
        """Take in who called, and ask the runtime if it may be asked and that can help now."""
        self.dead = frozenset(each for each in callers if each in names and names[each].dead)
        if met := self._meet(callers - self._identities.keys(), names):
            self._resolve(met)
            if not self._trouble:
                self._waiting.hasten()
        may_ask = may_ask and bool(self._unnamed) and self._clock() >= self._waiting.due_s
        if self._runtime is not None and may_ask:
            self._ask(self._runtime)
        self.ask_at_s = self._waiting.due_s if self._unnamed else None

    def _meet(self, callers: Set[CgroupId], names: Mapping[CgroupId, CgroupName]) -> list[CgroupId]:
        met = []
        for cgroup_id in callers:
            path = path_of(cgroup_id, names)
            if path is not None:
                self._identities[cgroup_id] = identify(path)
                met.append(cgroup_id)
        return met

    def _ask(self, runtime: Runtime) -> None:
        wanted = {each.container_id or each.pod_uid or "" for each in self._waiting.identities}
        try:
            found = runtime.records(wanted)
        except RuntimeUnavailable as error:
            self._report(str(error))
        else:
            self._report("")
            self._records = Records({**self._kept, **found}.values())
            self._resolve(list(self._unnamed))
            self._give_up()
        self._waiting.asked(runtime.lists, self._clock())

    def _resolve(self, cgroups: Collection[CgroupId]) -> None:
        """Name these callers, and keep what that took: the record may go, the calls stay."""
        used = {}
        for cgroup_id in cgroups:
            identity = self._identities[cgroup_id]
            record = self._records.of(identity)
            self.owners[cgroup_id] = owner = owner_of(identity, record)
            if record is not None:
                used[record.container_id] = record
            # Without a runtime nobody waits: it is a mode.
            if self._runtime is not None and is_unresolved(owner):
                self._unnamed[cgroup_id] = identity
            else:
                self._unnamed.pop(cgroup_id, None)
        self._waiting.are(frozenset(self._unnamed.values()), self._clock())
        if not used.items() <= self._kept.items():
            self._kept |= used
            if self._memory is not None:
                self._memory.save(self._kept)

    def _give_up(self) -> None:
        gone = {self._unnamed[each] for each in self.dead & self._unnamed.keys()}
        hopeless = self._waiting.hopeless(gone, self._clock())
        self._unnamed = {at: each for at, each in self._unnamed.items() if each not in hopeless}
        self._waiting.are(frozenset(self._unnamed.values()), self._clock())

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
