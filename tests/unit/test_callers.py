# SPDX-License-Identifier: Apache-2.0
"""Cgroups get their owners; the runtime is asked when that can help, and not otherwise."""

from collections.abc import Mapping

from xpumeter.callers import Callers
from xpumeter.errors import RuntimeUnavailable
from xpumeter.model.kernel import CgroupId, CgroupName
from xpumeter.model.owners import ContainerRecord, Owner

ID = "05b9a3305caeae2f1fa49fbc09456cd8bf5749209bf5a1a315078377f57665be"
UID = "b5ebee9a-740b-4b72-b4b4-200165f8c557"
ROOT, PODS, POD, CONTAINER, SERVICE = (CgroupId(i) for i in (1, 2, 3, 4, 5))
NAMES = {
    name.cgroup_id: name
    for name in (
        CgroupName(ROOT, CgroupId(0), "", False),
        CgroupName(PODS, ROOT, "kubepods", False),
        CgroupName(POD, PODS, f"pod{UID}", False),
        CgroupName(CONTAINER, POD, ID, False),
        CgroupName(SERVICE, ROOT, "media.service", False),
    )
}
RECORD = ContainerRecord(ID, False, "main", "trainer-0", "ml", UID)
NAMED = Owner("ml", "trainer-0", UID, "main", ID)
UNNAMED = Owner(pod_uid=UID, container_id=ID)


class Clock:
    """Seconds, as the test sets them."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """As time.monotonic."""
        return self.now_s


class FakeRuntime:
    """Answers with `known`, or not at all while that is None; counts how often it was asked."""

    def __init__(self, *known: ContainerRecord) -> None:
        self.known: tuple[ContainerRecord, ...] | None = known
        self.asked = 0

    def records(self) -> dict[str, ContainerRecord]:
        """As Runtime."""
        self.asked += 1
        if self.known is None:
            raise RuntimeUnavailable("no answer")
        return {record.container_id: record for record in self.known}


def test_a_new_container_is_named_at_once() -> None:
    """One question, and the owner has all its names."""
    runtime = FakeRuntime(RECORD)
    callers = Callers(runtime)

    callers.update({CONTAINER}, NAMES)

    assert callers.owners == {CONTAINER: NAMED}
    assert (runtime.asked, callers.ask_at_s) == (1, None)


def test_a_known_container_and_a_service_ask_nobody() -> None:
    """At rest the runtime is left alone."""
    runtime, clock = FakeRuntime(RECORD), Clock()
    callers = Callers(runtime, clock=clock)
    callers.update({CONTAINER}, NAMES)

    for clock.now_s in (10, 20):
        callers.update({CONTAINER, SERVICE}, NAMES)

    assert callers.owners[SERVICE] == Owner(cgroup="/media.service")
    assert runtime.asked == 1


def test_a_container_that_stays_unknown_is_asked_for_ever_more_rarely() -> None:
    """Two minutes of an unknown container are some ten questions, not one for each look."""
    runtime, clock = FakeRuntime(), Clock()
    callers = Callers(runtime, clock=clock)

    for tenth_s in range(1200):
        clock.now_s = tenth_s / 10
        callers.update({CONTAINER}, NAMES)

    assert callers.owners == {CONTAINER: UNNAMED}
    assert callers.unresolved == {UNNAMED}
    assert 8 <= runtime.asked <= 12


def test_a_name_that_comes_late_is_taken() -> None:
    """The runtime was restarting; the series gets its name when it answers."""
    runtime, clock = FakeRuntime(RECORD), Clock()
    runtime.known = None
    callers = Callers(runtime, clock=clock)
    callers.update({CONTAINER}, NAMES)
    assert callers.owners == {CONTAINER: UNNAMED}

    runtime.known, clock.now_s = (RECORD,), 5
    callers.update({CONTAINER}, NAMES)

    assert callers.owners == {CONTAINER: NAMED}


def test_what_was_said_of_a_container_outlives_its_record() -> None:
    """Its pod is deleted; its calls keep their names while another container is asked for."""
    runtime = FakeRuntime(RECORD)
    callers = Callers(runtime)
    callers.update({CONTAINER}, NAMES)
    runtime.known = ()
    other = {**NAMES, CgroupId(6): CgroupName(CgroupId(6), POD, ID[::-1], False)}

    callers.update({CONTAINER, CgroupId(6)}, other)

    assert runtime.asked == 2
    assert callers.owners[CONTAINER] == NAMED


def test_a_path_that_is_not_whole_names_nobody() -> None:
    """The names nearest the root are missing: it might be anything."""
    callers = Callers(FakeRuntime(RECORD))
    torn = {CONTAINER: NAMES[CONTAINER], POD: NAMES[POD]}

    callers.update({CONTAINER}, torn)

    assert callers.owners == {}


def test_no_runtime_is_a_mode() -> None:
    """Ids are all there is, and nobody is asked for more."""
    callers = Callers(None)

    callers.update({CONTAINER}, NAMES)

    assert callers.owners == {CONTAINER: UNNAMED}
    assert callers.ask_at_s is None


def test_a_container_that_is_gone_before_it_was_asked_for_is_given_up() -> None:
    """The runtime will never know it again: one answer is enough, and nobody waits any more."""
    runtime, clock = FakeRuntime(), Clock()
    callers = Callers(runtime, clock=clock)
    gone = {**NAMES, CONTAINER: CgroupName(CONTAINER, POD, ID, True)}

    for clock.now_s in (0, 10, 1000):
        callers.update({CONTAINER}, gone)

    assert callers.owners == {CONTAINER: UNNAMED}
    assert callers.unresolved == frozenset()
    assert (runtime.asked, callers.ask_at_s) == (1, None)


def test_who_was_not_answered_for_yet_is_known() -> None:
    """A filter by name waits for one answer, with a name or without; not for who has no runtime."""
    runtime, clock = FakeRuntime(), Clock()
    runtime.known = None
    callers = Callers(runtime, clock=clock)

    callers.update({CONTAINER, SERVICE}, NAMES)
    assert callers.unanswered == {UNNAMED}

    runtime.known, clock.now_s = (), 10
    callers.update({CONTAINER, SERVICE}, NAMES)
    assert callers.unanswered == frozenset()
    assert callers.unresolved == {UNNAMED}

    without = Callers(None)
    without.update({CONTAINER}, NAMES)
    assert without.unanswered == frozenset()


class SlowRuntime(FakeRuntime):
    """Fails after two seconds, as one that hangs."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.known = None
        self._clock = clock

    def records(self) -> dict[str, ContainerRecord]:
        """Never."""
        self._clock.now_s += 2
        return super().records()


def test_a_runtime_that_hangs_does_not_take_the_agent_s_time() -> None:
    """With a new container each half second most looks must not wait for it."""
    clock = Clock()
    runtime = SlowRuntime(clock)
    callers = Callers(runtime, clock=clock)
    names = dict(NAMES)
    for number in range(120):
        clock.now_s += 0.5
        one = CgroupId(100 + number)
        names[one] = CgroupName(one, POD, f"{number:064x}", False)
        callers.update(set(names) - {ROOT, PODS, POD, SERVICE}, names)

    assert runtime.asked <= 7


def test_a_cgroup_that_is_not_spelled_yet_is_looked_at_again() -> None:
    """The kernel makes the element first and fills it in after: for a moment it has no name."""
    callers = Callers(None)
    blank = {**NAMES, CONTAINER: CgroupName(CONTAINER, CgroupId(0), "", False)}
    callers.update({CONTAINER}, blank)
    assert callers.owners == {}

    callers.update({CONTAINER}, NAMES)

    assert callers.owners == {CONTAINER: UNNAMED}


def test_at_the_end_nobody_is_asked() -> None:
    """The last look must not wait for a runtime that hangs."""
    runtime = FakeRuntime(RECORD)
    callers = Callers(runtime)

    callers.update({CONTAINER}, NAMES, may_ask=False)

    assert runtime.asked == 0


class FakeMemory:
    """What one agent leaves to the next, without a file."""

    def __init__(self) -> None:
        self.records: dict[str, ContainerRecord] = {}
        self.saved = 0

    def load(self) -> dict[str, ContainerRecord]:
        """As Memory."""
        return dict(self.records)

    def save(self, records: Mapping[str, ContainerRecord]) -> None:
        """As Memory."""
        self.records = dict(records)
        self.saved += 1


def test_a_restarted_agent_knows_a_container_that_is_gone() -> None:
    """Its pod was deleted while nobody ran: the calls keep their names."""
    memory = FakeMemory()
    Callers(FakeRuntime(RECORD), memory).update({CONTAINER}, NAMES)

    runtime = FakeRuntime()
    restarted = Callers(runtime, memory)
    restarted.update({CONTAINER}, NAMES)

    assert restarted.owners == {CONTAINER: NAMED}
    assert runtime.asked == 0


def test_only_callers_are_remembered_and_only_when_that_changes() -> None:
    """A node's other containers are none of our business."""
    memory, clock = FakeMemory(), Clock()
    stranger = ContainerRecord("c" * 64, False, "main", "web-0", "web", "another-uid")
    callers = Callers(FakeRuntime(RECORD, stranger), memory, clock=clock)
    callers.update({CONTAINER}, NAMES)
    assert memory.records == {ID: RECORD}

    unknown = CgroupId(6)
    names = {**NAMES, unknown: CgroupName(unknown, ROOT, f"docker-{ID[::-1]}.scope", False)}
    for clock.now_s in range(100):
        callers.update({CONTAINER, unknown}, names)

    assert memory.saved == 1


def test_a_name_is_kept_that_was_known_before_it_was_needed() -> None:
    """An answer for one container has all of them; the next caller needs no question of its own.

    Its record is kept all the same when a later answer lacks it: an owner never loses its names.
    """
    other, later = CgroupId(6), CgroupId(7)
    other_id, later_id = ID[::-1], "7" * 64
    names = {
        **NAMES,
        other: CgroupName(other, POD, other_id, False),
        later: CgroupName(later, POD, later_id, False),
    }
    memory = FakeMemory()
    runtime = FakeRuntime(RECORD, ContainerRecord(other_id, False, "side", "trainer-0", "ml", UID))
    callers = Callers(runtime, memory)
    callers.update({CONTAINER}, names)
    callers.update({CONTAINER, other}, names)
    assert memory.records.keys() == {ID, other_id}

    runtime.known = ()
    callers.update({CONTAINER, other, later}, names)

    assert callers.owners[other] == Owner("ml", "trainer-0", UID, "side", other_id)
    assert runtime.asked == 2
