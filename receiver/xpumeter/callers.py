# SPDX-License-Identifier: Apache-2.0
"""Who stands behind each cgroup id: the kernel's names, completed by the container runtime's.

The runtime is asked when an unknown container shows, and again, ever more rarely, while one stays
unknown; never on a schedule of its own, and never more than twice a second.
"""

import logging
import time
from collections.abc import Callable, Mapping, Set
from typing import Protocol

from xpumeter.enrich.cgroups import path_of
from xpumeter.enrich.identity import identify
from xpumeter.enrich.owner import is_unresolved, owner_of
from xpumeter.errors import RuntimeUnavailable
from xpumeter.model.kernel import CgroupId, CgroupName
from xpumeter.model.owners import ContainerRecord, Identity, Owner

_log = logging.getLogger(__name__)

_PAUSE_S = 0.5
_PAUSE_LIMIT_S = 30.0


class Runtime(Protocol):
    """What answers with the containers of this host."""

    def records(self) -> dict[str, ContainerRecord]:
        """All of them by id, or RuntimeUnavailable."""
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
        unresolved: Owners that the runtime could still name.
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
        self._records: Mapping[str, ContainerRecord] = self._kept
        self._missed: set[CgroupId] = set()
        self._answered: set[CgroupId] = set()
        self._pause_s = _PAUSE_S
        self._trouble = ""
        self.owners: dict[CgroupId, Owner] = {}
        self.dead: frozenset[CgroupId] = frozenset()
        self.unresolved: frozenset[Owner] = frozenset()
        self.ask_at_s: float | None = None

    def update(
        self, callers: Set[CgroupId], names: Mapping[CgroupId, CgroupName], *, may_ask: bool = True
    ) -> None:
        """Take in who called, and ask the runtime if it may be asked and that can help now."""
        self.dead = frozenset(each for each in callers if each in names and names[each].dead)
        new = False
        for cgroup_id in callers - self._identities.keys():
            path = path_of(cgroup_id, names)
            if path is not None:
                self._identities[cgroup_id] = identify(path)
                new = True
        if new:
            self._resolve()
        if new and not self._trouble:
            self._pause_s, self.ask_at_s = _PAUSE_S, None
        if self._runtime is not None and self.unresolved and may_ask and self._is_time():
            self._ask(self._runtime)
            # From the answer on: one that takes seconds must not be asked again at once.
            self.ask_at_s = self._clock() + self._pause_s
            self._pause_s = min(self._pause_s * 2, _PAUSE_LIMIT_S)
        if self._runtime is None or not self.unresolved:
            self.ask_at_s = None

    @property
    def unanswered(self) -> frozenset[Owner]:
        """Owners without all names of whom the runtime has not answered yet."""
        if self._runtime is None:
            return frozenset()
        return frozenset(
            owner
            for cgroup_id, owner in self.owners.items()
            if cgroup_id not in self._answered and is_unresolved(owner)
        )

    def _is_time(self) -> bool:
        return self.ask_at_s is None or self._clock() >= self.ask_at_s

    def _ask(self, runtime: Runtime) -> None:
        try:
            found = runtime.records()
        except RuntimeUnavailable as error:
            self._report(str(error))
            return
        self._report("")
        self._answered |= self._identities.keys()
        self._records = {**self._kept, **found}
        # Gone before it was asked for: the runtime will never know it again.
        self._missed |= self.dead
        self._resolve()

    def _resolve(self) -> None:
        """Name every caller, and keep what that took: the record may go, the calls stay."""
        self.owners = {
            cgroup_id: owner_of(identity, self._records)
            for cgroup_id, identity in self._identities.items()
        }
        self.unresolved = frozenset(
            owner
            for cgroup_id, owner in self.owners.items()
            if cgroup_id not in self._missed and is_unresolved(owner)
        )
        wanted = {identity.container_id for identity in self._identities.values()}
        pods = {identity.pod_uid for identity in self._identities.values()}
        kept = {
            record.container_id: record
            for record in self._records.values()
            if record.container_id in wanted or (record.sandbox and record.pod_uid in pods)
        }
        if kept != self._kept:
            self._kept = kept
            if self._memory is not None:
                self._memory.save(kept)

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
