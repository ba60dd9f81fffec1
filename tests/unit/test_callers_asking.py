# SPDX-License-Identifier: Apache-2.0
"""When the runtime is asked, and when no more."""

from collections.abc import Collection
from itertools import pairwise

import pytest

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


def test_a_container_that_stays_unknown_is_asked_for_ever_more_rarely() -> None:
    """Two minutes of an unknown container are seven questions, not one for each look."""
    runtime, clock = FakeRuntime(), Clock()
    callers = Callers(runtime, clock=clock)

    for tenth_s in range(1200):
        clock.now_s = tenth_s / 10
        callers.update({CONTAINER}, NAMES)

    assert callers.owners == {CONTAINER: UNNAMED}
    assert callers.unresolved == {UNNAMED}
    assert runtime.asked == 7


def churn(runtime: FakeRuntime, clock: Clock, *, known: bool, seconds: int) -> list[float]:
    """A new container in each tenth of a second, each a look; when lists were asked for."""
    asked: list[float] = []
    callers = Callers(runtime, clock=clock)
    names = dict(NAMES)
    for tenth_s in range(seconds * 10):
        clock.now_s = tenth_s / 10
        one, container_id = CgroupId(100 + tenth_s), f"{tenth_s:064x}"
        names[one] = CgroupName(one, POD, container_id, False)
        if known:
            record = ContainerRecord(container_id, False, "main", "p", "ml", UID)
            runtime.known = (*(runtime.known or ()), record)
        before = runtime.listed
        callers.update(names.keys() - {ROOT, PODS, POD, SERVICE}, names)
        asked += [clock.now_s] * (runtime.listed - before)
    return asked


@pytest.mark.parametrize("known", [True, False])
def test_under_churn_two_lists_a_second(known: bool) -> None:
    """However many containers come; and no fewer, or brief ones were missed."""
    asked = churn(FakeRuntime(), Clock(), known=known, seconds=20)

    for begin in range(19):
        assert sum(begin <= each < begin + 1 for each in asked) <= 2
    assert len(asked) >= 35


def test_a_list_comes_within_a_second_of_any_first_call() -> None:
    """Whether the last list found all or not: a container may be gone a second later."""
    for known in (True, False):
        asked = churn(FakeRuntime(), Clock(), known=known, seconds=20)
        assert max(later - sooner for sooner, later in pairwise(asked)) <= 1


def test_at_rest_two_lists_a_minute() -> None:
    """A pod's container that the runtime never lists, looked at ten times a second."""
    runtime, clock = FakeRuntime(), Clock()
    callers = Callers(runtime, clock=clock)
    for tenth_s in range(6000):
        clock.now_s = tenth_s / 10
        callers.update({CONTAINER}, NAMES)
        if tenth_s == 3000:
            first = runtime.listed

    assert runtime.listed - first == 2 * 5


def test_a_container_of_another_engine_is_given_up() -> None:
    """Docker's are not in the runtime's lists: a minute is enough to know; its id is its name."""
    runtime, clock = FakeRuntime(), Clock()
    callers = Callers(runtime, clock=clock)
    docker = CgroupId(6)
    names = {**NAMES, docker: CgroupName(docker, ROOT, f"docker-{ID}.scope", False)}
    for clock.now_s in range(600):
        callers.update({docker}, names)
        if clock.now_s == 50:
            assert callers.longest_wait_s == 50

    assert callers.owners == {docker: Owner(container_id=ID)}
    assert (callers.unresolved, callers.longest_wait_s) == (frozenset(), None)
    asked = runtime.asked
    for clock.now_s in range(600, 1200):
        callers.update({docker}, names)
    assert runtime.asked == asked


def test_a_silent_runtime_gives_nobody_up() -> None:
    """Without an answer nobody knows whose a container is: it waits, and that is told."""
    runtime, clock = FakeRuntime(RECORD), Clock()
    runtime.known = None
    callers = Callers(runtime, clock=clock)
    outside = {**NAMES, CONTAINER: CgroupName(CONTAINER, ROOT, ID, False)}
    for clock.now_s in range(200):
        callers.update({CONTAINER}, outside)
    assert callers.longest_wait_s == 199

    runtime.known = (RECORD,)
    for clock.now_s in range(200, 260):
        callers.update({CONTAINER}, outside)

    assert callers.owners == {CONTAINER: NAMED}


class SlowRuntime(FakeRuntime):
    """Fails after two seconds, as one that hangs."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.known = None
        self._clock = clock

    def records(self, wanted: Collection[str]) -> dict[str, ContainerRecord]:
        """Never."""
        self._clock.now_s += 2
        return super().records(wanted)


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
