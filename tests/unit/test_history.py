# SPDX-License-Identifier: Apache-2.0
"""Random histories of a host, through all of naming and export: nothing is lost, ever.

The kernel and the Collector are models; everything between them is the real thing.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from unit.backend import Backend
from unit.stages import Stages
from unit.world import SLOTS, UNKNOWN, World
from xpumeter.model.calls import NR_OVERFLOW
from xpumeter.model.kernel import CgroupId
from xpumeter.model.owners import ContainerRecord
from xpumeter.model.past import Past
from xpumeter.model.series import Snapshot
from xpumeter.source.journal import Journal


class Killed(Exception):  # noqa: N818 (nothing is wrong)
    """The agent, at this instruction."""


class Watched(Journal):
    """The real one, whose disk may be full and during whose writes the agent may be killed."""

    def __init__(self, folder: Path, attach_id: bytes) -> None:
        super().__init__(folder, attach_id)
        self.is_full = False
        self.before_write: Callable[[], None] = lambda: None
        self.after_write: Callable[[], None] = lambda: None

    def save(self, past: Past) -> bool:
        self.before_write()
        written = not self.is_full and super().save(past)
        self.after_write()
        return written


def killed() -> None:
    """What happens at the instruction where the agent dies."""
    raise Killed


class Host(RuleBasedStateMachine):
    """A kernel that counts, containers that come and go, an agent that may die, a Collector."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.world = World()
        self.attaches = 0
        self.remembered: dict[str, ContainerRecord] = {}
        self.disk_is_full = False
        self.attach(0)

    # --- as Memory -------------------------------------------------------------------------------

    def load(self) -> dict[str, ContainerRecord]:
        return dict(self.remembered)

    def save(self, records: Mapping[str, ContainerRecord]) -> None:
        self.remembered = dict(records)

    # --- what may happen -------------------------------------------------------------------------

    @rule(unless=st.integers(0, 5))
    def attach(self, unless: int) -> None:
        """Detached and attached: other counts. Rarely, or nothing else would have its time."""
        if not unless:
            self.world.now_s += 10
            self.attaches += 1
            self.remembered = {}
            self.world.attach()
            self.backend = Backend()
            self.start_agent()

    @rule()
    def start_agent(self) -> None:
        """Also after it was killed: nothing but its files is left of the one before."""
        self.journal = Watched(Path(self.folder.name), str(self.attaches).encode())
        self.journal.is_full = self.disk_is_full
        self.agent = Stages(
            self.world.kernel,
            self.world.devices,
            runtime=self.world,
            memory=self,
            journal=self.journal,
            clock=lambda: self.world.now_s,
        )
        assert self.journal.bad_records == 0
        self.delivered = 0

    @rule(slot=st.integers(0, 1))
    def plug(self, slot: int) -> None:
        self.world.plug(slot)

    @rule(pod=st.integers(0, 2), known=st.booleans())
    def create_container(self, pod: int, known: bool) -> None:
        self.world.create_container(pod, known=known)

    @rule(which=st.integers(0, 1))
    def start_service(self, which: int) -> None:
        self.world.start_service(which)

    @rule(
        pod=st.integers(0, 2),
        nr=st.sampled_from([0x42, 0x48, NR_OVERFLOW]),
        error=st.sampled_from([0, 12, 512]),
        calls=st.integers(1, 1000),
        whole=st.booleans(),
    )
    def live_a_second(self, pod: int, nr: int, error: int, calls: int, whole: bool) -> None:
        """A container that calls from inside and is gone, or one that goes on without that."""
        cgroup, inner = self.world.create_container(pod, known=True)
        for each in (inner, cgroup) if whole else (inner,):
            self.world.call((each, 1, nr, error), calls)
        self.world.remove(cgroup if whole else inner)

    @rule(which=st.integers(0, 30))
    def remove(self, which: int) -> None:
        if alive := self.world.alive():
            self.world.remove(alive[which % len(alive)])

    @rule(
        which=st.integers(0, 30),
        device=st.sampled_from([1, 2, 3, UNKNOWN]),
        result=st.tuples(
            st.sampled_from([0x42, 0x48, 0x10, 0x100, NR_OVERFLOW]),
            st.sampled_from([0, 12, 515, 512, 0xFFFF]),
        ),
        calls=st.integers(1, 1000),
        counted=st.booleans(),
    )
    def call(
        self, which: int, device: int, result: tuple[int, int], calls: int, counted: bool
    ) -> None:
        """A caller, dead or alive, or one whose cgroup the kernel had no room to name."""
        cgroups = [*self.world.kernel.names, CgroupId(10**6)][1:]
        key = (cgroups[which % len(cgroups)], self.plugged(device), *result)
        self.world.call(key, calls, counted=counted)

    @rule(which=st.integers(0, 30), deleted=st.booleans())
    def call_late(self, which: int, deleted: bool) -> None:
        """A row of a dead cgroup is added to after it was read: before it is deleted, or after."""
        kernel = self.world.kernel
        dead = [key for key in kernel.rows if self.world.is_dead(key[0])]
        if dead:
            key = dead[which % len(dead)]
            who = self.world.who(key[0])
            when = kernel.after if deleted else kernel.late
            when.append(lambda: self.world.call(key, 1, who=who))

    @rule(device=st.sampled_from([1, 2, UNKNOWN]), calls=st.integers(1, 9))
    def call_without_room(self, device: int, calls: int) -> None:
        self.world.kernel.refuse(self.plugged(device), calls)

    @rule(answers=st.booleans())
    def change_runtime(self, answers: bool) -> None:
        self.world.answers = answers

    @rule(full=st.booleans())
    def change_disk(self, full: bool) -> None:
        self.disk_is_full = self.journal.is_full = full

    @rule(
        at=st.sampled_from(["read", "before write", "after write", "in retire", "after retire"]),
        deletes=st.integers(0, 3),
        arrives=st.booleans(),
    )
    def kill_agent(self, at: str, deletes: int, arrives: bool) -> None:
        """At any step of the protocol; then the next one comes."""
        kernel = self.world.kernel
        if at == "before write":
            self.journal.before_write = killed
        elif at == "after write":
            self.journal.after_write = killed
        elif at == "in retire":
            kernel.deletes, kernel.interrupt = deletes, killed
        elif at == "after retire":
            kernel.after.append(killed)
        if at == "read":
            kernel.read()
        else:
            with suppress(Killed):
                self.period(1, arrives, 0)
        kernel.deletes = None
        kernel.after = [each for each in kernel.after if each is not killed]
        self.start_agent()

    @rule(step_s=st.integers(1, 100), arrives=st.booleans(), clock=st.integers(-99, 99))
    def period(self, step_s: int, arrives: bool, clock: int) -> None:
        """Whether the Collector is there or not; the host's clock is what it is."""
        self.world.now_s += step_s
        snapshot, batch = self.agent.export(delivered=self.delivered, drift_ns=clock)
        self.every_call_is_in_one_place(snapshot)
        assert self.agent.difference == (0, 0)
        if arrives:
            self.delivered = batch.seq
            self.backend.take(batch.parts)
            for who, increases in self.backend.increases().items():
                assert max(increases) <= self.world.made[who], f"{who} made fewer calls"
        self.agent.retire()
        self.nothing_is_kept_of_the_forgotten()

    # --- what must hold --------------------------------------------------------------------------

    def plugged(self, device: int) -> int:
        return device if device == UNKNOWN else min(device, len(self.world.devices))

    def every_call_is_in_one_place(self, snapshot: Snapshot) -> None:
        """On each device: series, what is unattributed and what has ended are what was counted."""
        placed: Counter[str] = Counter()
        for series in snapshot.series:
            for points in (series.calls, series.interrupted):
                placed[series.device.device_id] += sum(each.value for each in points.values())
        for (device_id, _), point in snapshot.unattributed.items():
            placed[device_id or ""] += point.value
        for number, calls in self.agent.retiring.past.ended.items():
            placed[self.world.device_id(number)] += calls
        assert placed == self.world.counted()

    def nothing_is_kept_of_the_forgotten(self) -> None:
        """What the agent holds is of cgroups that the kernel has, or of who has just ended."""
        callers, retiring = self.agent.callers, self.agent.retiring
        assert callers.identities.keys() <= self.agent.names.keys() | callers.owners.keys()
        held = set(callers.identities.values()) | retiring.identities | callers.retired.keys()
        assert callers._named.keys() <= held
        assert callers._hopeless <= callers._named.keys()
        # Of a pod as a whole any of its containers' records has the names.
        ids = {each.container_id for each in callers._named}
        pods = {each.pod_uid for each in callers._named}
        assert len(self.remembered) <= len(callers._named)
        for record in self.remembered.values():
            assert record.container_id in ids or record.pod_uid in pods
        assert len(self.agent.ledger._series) <= len(SLOTS) * len(callers._named)

    def teardown(self) -> None:
        self.world.answers = True
        self.change_disk(False)
        with self.folder:
            self.in_the_end()

    def in_the_end(self) -> None:
        """When all is well again, the Collector shows every call once; the dead are forgotten."""
        for _ in range(8):
            self.period(40, True, 0)
        past, kernel = self.agent.retiring.past, self.world.kernel
        assert self.backend.live() + sum(past.ended.values()) == self.world.counted().total()

        assert not any(name.dead for name in kernel.names.values())
        assert not any(self.world.is_dead(key[0]) for key in kernel.rows)
        assert {each for each in past.settled if each} <= self.agent.callers.alive
        assert set(self.agent.callers.identities) == kernel.names.keys()
        assert not any(series.ended for _, series in self.agent.ledger._series.values())


TestHistories = Host.TestCase
TestHistories.settings = settings(stateful_step_count=40, deadline=None)


def test_the_collector_of_the_model_notices_a_step_back() -> None:
    """The model is no rubber stamp."""
    host = Host()
    kernel = host.world.kernel
    host.create_container(pod=0, known=True)
    host.call(which=1, device=1, result=(0x42, 0), calls=5, counted=True)
    host.period(10, True, 0)
    kernel.rows = {key: row._replace(calls=4) for key, row in kernel.rows.items()}
    kernel.returns[1] = 4
    host.world.made.subtract(dict.fromkeys(host.world.made, 1))
    host.start_agent()

    with host.folder, pytest.raises(AssertionError, match="a series stepped back"):
        host.period(10, True, 0)


def test_who_comes_again_right_after_it_was_let_go_begins_anew() -> None:
    """Its old calls are told and counted as ended: its new ones are not hidden behind them."""
    host = Host()

    def service() -> CgroupId:
        host.world.start_service(0)
        names = host.world.kernel.names.values()
        return max(each.cgroup_id for each in names if not each.dead and each.name)

    first = service()
    host.world.call((first, 1, 0x42, 0), 1000)
    host.period(10, True, 0)
    host.world.remove(first)
    for _ in range(20):
        host.period(10, True, 0)
        if host.agent.retiring._written.ended:
            break
    assert sum(host.agent.retiring._written.ended.values()) == 1000

    host.world.call((service(), 1, 0x42, 0), 5)
    host.period(10, True, 0)

    host.teardown()
