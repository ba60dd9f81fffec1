# SPDX-License-Identifier: Apache-2.0
"""Who stands behind each cgroup id: the kernel's names, completed by the container runtime's.

The runtime is asked when an unknown container shows, and again, ever more rarely, while one stays
unknown; never on a schedule of its own. However many containers show, it is asked for two lists a
second at most, and while nobody new shows, for two a minute in the end.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Set
from typing import Protocol

from xpumeter.enrich.cgroups import path_of
from xpumeter.enrich.identity import identify
from xpumeter.enrich.owner import Records, is_unresolved, owner_of
from xpumeter.errors import RuntimeUnavailable
from xpumeter.model.kernel import CgroupId, CgroupName
from xpumeter.model.owners import ContainerRecord, Identity, Owner

_log = logging.getLogger(__name__)

_PAUSE_S = 0.5
_PAUSE_LIMIT_S = 30.0
"""Pauses are for each list that was asked for: the next question after two lists waits twice."""

_FOREIGN_S = 60.0
"""A container outside pods that the runtime does not list by then is another engine's (Docker's,
Podman's): CRI-O lists a container only once it is made, and its hooks call before that."""


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
        self._kept: dict[str, ContainerRecord] = memory.load() if memory else {}
        self._records = Records(self._kept.values())
        self._waiting: dict[CgroupId, float] = {}
        self._pause_s = _PAUSE_S
        self._due_s = self._rested_s = clock()
        self._trouble = ""
        self.owners: dict[CgroupId, Owner] = {}
        self.dead: frozenset[CgroupId] = frozenset()
        self.ask_at_s: float | None = None

    @property
    def unresolved(self) -> frozenset[Owner]:
        """Owners that the runtime could still name."""
        return frozenset(self.owners[each] for each in self._waiting)

    @property
    def longest_wait_s(self) -> float | None:
        """Since when the oldest of the unresolved is known; None if there is none."""
        return self._clock() - min(self._waiting.values()) if self._waiting else None

    def update(
        self, callers: Set[CgroupId], names: Mapping[CgroupId, CgroupName], *, may_ask: bool = True
    ) -> None:
        """Take in who called, and ask the runtime if it may be asked and that can help now."""
        self.dead = frozenset(each for each in callers if each in names and names[each].dead)
        met = self._meet(callers - self._identities.keys(), names)
        self._resolve(met)
        if met and not self._trouble:
            self._pause_s, self._due_s = _PAUSE_S, self._rested_s
        if self._runtime is not None and self._waiting and may_ask and self._clock() >= self._due_s:
            self._ask(self._runtime)
        self.ask_at_s = self._due_s if self._runtime is not None and self._waiting else None

    def _meet(self, callers: Set[CgroupId], names: Mapping[CgroupId, CgroupName]) -> list[CgroupId]:
        met = []
        for cgroup_id in callers:
            path = path_of(cgroup_id, names)
            if path is not None:
                self._identities[cgroup_id] = identify(path)
                met.append(cgroup_id)
        return met

    def _ask(self, runtime: Runtime) -> None:
        try:
            found = runtime.records(self._wanted())
        except RuntimeUnavailable as error:
            self._report(str(error))
        else:
            self._report("")
            self._records = Records({**self._kept, **found}.values())
            self._resolve(list(self._waiting))
            self._give_up()
        # From the answer on: one that takes seconds must not be asked again at once.
        now_s, lists = self._clock(), max(1, runtime.lists)
        self._rested_s = now_s + _PAUSE_S * lists
        self._due_s = now_s + self._pause_s * lists
        self._pause_s = min(self._pause_s * 2, _PAUSE_LIMIT_S)

    def _wanted(self) -> set[str]:
        identities = (self._identities[each] for each in self._waiting)
        return {each.container_id or each.pod_uid or "" for each in identities}

    def _resolve(self, cgroups: Collection[CgroupId]) -> None:
        """Name these callers, and keep what that took: the record may go, the calls stay."""
        new = {}
        for cgroup_id in cgroups:
            identity = self._identities[cgroup_id]
            record = self._records.of(identity)
            self.owners[cgroup_id] = owner = owner_of(identity, record)
            if self._runtime is not None and is_unresolved(owner):
                self._waiting.setdefault(cgroup_id, self._clock())
            else:
                self._waiting.pop(cgroup_id, None)
            if record is not None and self._kept.get(record.container_id) != record:
                new[record.container_id] = record
        if new:
            self._kept |= new
            if self._memory is not None:
                self._memory.save(self._kept)

    def _give_up(self) -> None:
        """Stop waiting for whom the runtime will never name; it has just answered."""
        foreign_s = self._clock() - _FOREIGN_S
        for cgroup_id, since_s in list(self._waiting.items()):
            outside = self._identities[cgroup_id].pod_uid is None and since_s <= foreign_s
            # Gone before it was asked for: it will not be listed again either.
            if cgroup_id in self.dead or outside:
                del self._waiting[cgroup_id]

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
