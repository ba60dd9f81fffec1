# SPDX-License-Identifier: Apache-2.0
"""Cgroups get their owners; the runtime is asked when that can help, and not otherwise."""

from collections.abc import Mapping

from unit.named import (
    CONTAINER,
    ID,
    NAMED,
    NAMES,
    POD,
    PODS,
    RECORD,
    ROOT,
    SERVICE,
    UID,
    UNNAMED,
    Clock,
    FakeRuntime,
)
from xpumeter.callers import Callers
from xpumeter.model.kernel import CgroupId, CgroupName
from xpumeter.model.owners import ContainerRecord, Owner


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


def test_the_oldest_wait_is_known() -> None:
    """From the first look at an unknown container until it has its name; others do not move it."""
    runtime, clock = FakeRuntime(), Clock()
    callers = Callers(runtime, clock=clock)
    assert callers.longest_wait_s is None

    other = {**NAMES, CgroupId(6): CgroupName(CgroupId(6), POD, ID[::-1], False)}
    both = {CONTAINER, CgroupId(6)}
    for clock.now_s, seen in ((10, {CONTAINER}), (40, both), (41, both)):
        callers.update(seen, other)
    assert callers.longest_wait_s == 31

    runtime.known, clock.now_s = (RECORD,), 100
    callers.update(both, other)
    assert callers.longest_wait_s == 60  # of the other, since 40


def test_where_nobody_is_asked_nobody_waits() -> None:
    """Without a runtime no name is to come."""
    clock = Clock()
    callers = Callers(None, clock=clock)
    callers.update({CONTAINER}, NAMES)

    assert callers.longest_wait_s is None


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
    runtime, clock = FakeRuntime(RECORD), Clock()
    callers = Callers(runtime, clock=clock)
    callers.update({CONTAINER}, NAMES)
    runtime.known, clock.now_s = (), 10
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
    assert (callers.unresolved, callers.longest_wait_s) == (frozenset(), None)


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
    memory, clock = FakeMemory(), Clock()
    runtime = FakeRuntime(RECORD, ContainerRecord(other_id, False, "side", "trainer-0", "ml", UID))
    callers = Callers(runtime, memory, clock=clock)
    callers.update({CONTAINER}, names)
    callers.update({CONTAINER, other}, names)
    assert memory.records.keys() == {ID, other_id}

    runtime.known, clock.now_s = (), 10
    callers.update({CONTAINER, other, later}, names)

    assert callers.owners[other] == Owner("ml", "trainer-0", UID, "side", other_id)
    assert runtime.asked == 2


def without(*gone: CgroupId) -> dict[CgroupId, CgroupName]:
    """The names when the kernel has retired some."""
    return {each: name for each, name in NAMES.items() if each not in gone}


def test_who_is_gone_from_the_kernel_is_forgotten() -> None:
    """A host that starts containers for ever: what is kept is what is there."""
    memory, runtime = FakeMemory(), FakeRuntime(RECORD)
    callers = Callers(runtime, memory)
    callers.update({CONTAINER}, NAMES)
    runtime.known = ()

    callers.update({SERVICE}, without(CONTAINER, POD, PODS))

    assert callers.owners.keys() == callers.identities.keys() - {ROOT} == {SERVICE}
    assert memory.records == {}


def test_a_caller_whose_rows_are_gone_keeps_its_names_and_gets_them() -> None:
    """Its calls want an owner as long as anything of them is exported; the runtime may be late."""
    memory, runtime, clock = FakeMemory(), FakeRuntime(RECORD), Clock()
    runtime.known = None
    callers = Callers(runtime, memory, clock=clock)
    callers.update({CONTAINER}, NAMES)
    who = callers.identities[CONTAINER]
    callers.update(set(), without(CONTAINER), retired={who})
    assert callers.retired == {who: UNNAMED}
    assert callers.unresolved == {UNNAMED}

    runtime.known, clock.now_s = (RECORD,), 60
    callers.update(set(), without(CONTAINER), retired={who})

    assert callers.retired == {who: NAMED}
    assert callers.unresolved == frozenset()
    assert memory.records == {ID: RECORD}
    # The runtime has forgotten it: asked once more for others, it takes nothing away.
    restarted = Callers(FakeRuntime(), memory)
    restarted.update(set(), without(CONTAINER), retired={who})
    assert restarted.retired == {who: NAMED}


def test_a_container_lives_as_long_as_its_own_cgroup() -> None:
    """What systemd in a container starts and ends inside it ends nothing."""
    inside = CgroupId(7)
    names = {**NAMES, inside: CgroupName(inside, CONTAINER, "job.scope", True)}
    callers = Callers(None)

    callers.update({inside}, names)
    assert callers.owners == {inside: UNNAMED}
    assert callers.dead == frozenset()
    assert callers.identities[inside] in callers.alive

    names[CONTAINER] = CgroupName(CONTAINER, POD, ID, True)
    callers.update({inside}, names)
    assert callers.dead == {inside}


def test_a_cgroup_s_number_that_comes_again_is_another_caller() -> None:
    """The kernel had let go of the name; the next container with the number is not the last."""
    callers = Callers(None)
    callers.update({CONTAINER}, {**NAMES, CONTAINER: CgroupName(CONTAINER, POD, ID, True)})

    callers.update({CONTAINER}, {**NAMES, CONTAINER: CgroupName(CONTAINER, POD, ID[::-1], False)})

    assert callers.owners == {CONTAINER: Owner(pod_uid=UID, container_id=ID[::-1])}
