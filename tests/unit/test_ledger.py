# SPDX-License-Identifier: Apache-2.0
"""What is exported never steps back, and begins when its first call did."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from xpumeter.enrich.ledger import Ledger
from xpumeter.model.calls import Kind, Reason
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.owners import Owner
from xpumeter.model.series import Attribution, Point, Series, Tally, Usage

CARD = KnownDevice(DeviceId("0000:03:00.0"), "xe", None, None, None, None, None, {})
NAMELESS = Owner(pod_uid="uid", container_id="c" * 64)
TRAINER = Owner("ml", "trainer-0", "uid", "main", "c" * 64)
OK = (Kind.SUBMIT, 0)
OFFSET = 1_000_000


def usage(calls: int, first: int = 5) -> Usage:
    """So many good submissions, half of them interrupted once."""
    return Usage(
        calls={OK: Tally(calls, first)},
        time_ns={Kind.SUBMIT: Tally(10 * calls, first)},
        interrupted={Kind.SUBMIT: Tally(calls // 2, first)},
    )


def attribution(
    usages: Mapping[Owner, Usage],
    *,
    ended: frozenset[Owner] = frozenset(),
    unattributed: Mapping[tuple[DeviceId | None, Reason], Tally] | None = None,
) -> Attribution:
    """All on one card."""
    return Attribution(
        usages={(owner, CARD.device_id): each for owner, each in usages.items()},
        unattributed=unattributed or {},
        ended=ended,
        devices={CARD.device_id: CARD},
    )


def step(
    ledger: Ledger, usages: Mapping[Owner, Usage], *, offset: int = OFFSET, ended: bool = False
) -> dict[Owner, Series]:
    """One period: series by owner."""
    given_ended = frozenset(usages) if ended else frozenset()
    snapshot = ledger.update(
        attribution(usages, ended=given_ended), unix_ns=9_000_000, boot_to_unix_ns=offset
    )
    assert len({(each.owner, each.device) for each in snapshot.series}) == len(snapshot.series)
    return {each.owner: each for each in snapshot.series}


def test_a_series_begins_when_its_first_call_did() -> None:
    """Every point carries its value and its start in Unix time."""
    series = step(Ledger(), {TRAINER: usage(8, first=5)})[TRAINER]

    assert series == Series(
        owner=TRAINER,
        device=CARD,
        calls={OK: Point(8, OFFSET + 5)},
        time_ns={Kind.SUBMIT: Point(80, OFFSET + 5)},
        interrupted={Kind.SUBMIT: Point(4, OFFSET + 5)},
        ended=False,
    )


def test_a_start_stays_when_the_clock_is_set() -> None:
    """A start time is converted once: a clock that is set later does not begin a new series."""
    ledger = Ledger()
    step(ledger, {TRAINER: usage(8)})

    for offset in (OFFSET - 500, OFFSET + 500):
        series = step(ledger, {TRAINER: usage(9)}, offset=offset)[TRAINER]
        assert series.calls == {OK: Point(9, OFFSET + 5)}


def test_no_value_steps_back() -> None:
    """A smaller value, or none, leaves the last one; a later first call leaves the start."""
    ledger = Ledger()
    step(ledger, {TRAINER: usage(8)})

    smaller = step(ledger, {TRAINER: usage(3, first=7)})[TRAINER]
    absent = step(ledger, {TRAINER: Usage({}, {}, {})})[TRAINER]
    larger = step(ledger, {TRAINER: usage(20, first=7)})[TRAINER]

    assert smaller.calls == absent.calls == {OK: Point(8, OFFSET + 5)}
    assert larger.calls == {OK: Point(20, OFFSET + 5)}


def test_calls_that_join_late_bring_their_start() -> None:
    """A cgroup that is named later, but called earlier, moves the start to its first call."""
    ledger = Ledger()
    step(ledger, {TRAINER: usage(8, first=50)})

    series = step(ledger, {TRAINER: usage(12, first=20)})[TRAINER]

    assert series.calls == {OK: Point(12, OFFSET + 20)}


def test_a_name_that_arrives_ends_one_series_and_begins_the_whole_again() -> None:
    """No call is in two live series, and the named one starts when the calls did."""
    ledger = Ledger()
    step(ledger, {NAMELESS: usage(8)})

    after = step(ledger, {TRAINER: usage(9)}, offset=OFFSET + 500)

    assert after.keys() == {TRAINER}
    assert not after[TRAINER].ended
    assert after[TRAINER].calls == {OK: Point(9, OFFSET + 5)}


def test_an_ended_owner_is_there_with_its_whole_value_until_it_is_forgotten() -> None:
    """The last value goes out marked as ended, and is not handed out again afterwards."""
    ledger = Ledger()
    step(ledger, {TRAINER: usage(8)})

    for _ in range(2):
        series = step(ledger, {TRAINER: usage(9)}, ended=True)[TRAINER]
        assert series.ended
        assert series.calls == {OK: Point(9, OFFSET + 5)}
    assert step(ledger, {}) == {}


def test_who_comes_back_goes_on() -> None:
    """A service that is started again in the same place is not at its end."""
    ledger = Ledger()
    step(ledger, {TRAINER: usage(8)}, ended=True)

    series = step(ledger, {TRAINER: usage(9)})[TRAINER]

    assert not series.ended
    assert series.calls == {OK: Point(9, OFFSET + 5)}


def test_what_gets_its_owner_later_leaves_the_rest_to_begin_again() -> None:
    """Unattributed calls that find their owner are not in both: the rest has a new start."""
    key = (CARD.device_id, Reason.UNKNOWN_CGROUP)
    ledger = Ledger()
    points = []
    for calls, now in ((5, 9_000_000), (7, 9_000_001), (2, 9_000_002), (3, 9_000_003)):
        each = attribution({}, unattributed={key: Tally(calls, 5)})
        snapshot = ledger.update(each, unix_ns=now, boot_to_unix_ns=OFFSET)
        points.append(snapshot.unattributed[key])

    assert points == [
        Point(5, OFFSET + 5),
        Point(7, OFFSET + 5),
        Point(2, 9_000_002),
        Point(3, 9_000_002),
    ]
    gone = ledger.update(attribution({}), unix_ns=9_000_004, boot_to_unix_ns=OFFSET)
    assert gone.unattributed == {}


def test_a_snapshot_names_moment_and_devices() -> None:
    """Devices are there before anybody has a series on them."""
    snapshot = Ledger().update(attribution({}), unix_ns=9, boot_to_unix_ns=0)

    assert (snapshot.unix_ns, snapshot.devices, snapshot.series) == (9, (CARD,), ())


def test_what_is_gone_is_forgotten() -> None:
    """Ten thousand containers that came and went leave nothing but a few start times behind."""
    ledger = Ledger()
    for number in range(10_000):
        owner = Owner(container_id=f"{number:064x}")
        assert len(step(ledger, {owner: usage(2, first=number)})) == 1

    assert len(ledger._series) == 1
    assert len(ledger._starts._known) <= 1024 + 3


def test_what_did_not_change_is_the_same_series() -> None:
    """So that the export need not look at it; a change of its end or its device is one."""
    ledger, same = Ledger(), usage(8)
    first = step(ledger, {TRAINER: same})[TRAINER]

    assert step(ledger, {TRAINER: same})[TRAINER] is first
    assert step(ledger, {TRAINER: same}, ended=True)[TRAINER] == replace(first, ended=True)
    assert step(ledger, {TRAINER: usage(8)})[TRAINER] == first


@given(
    st.lists(
        st.tuples(st.sampled_from([NAMELESS, TRAINER]), st.integers(0, 99), st.integers(0, 99)),
        max_size=12,
    ),
    st.lists(st.integers(-1000, 1000), min_size=12, max_size=12),
)
def test_points_are_monotonic_whatever_comes_in(
    periods: list[tuple[Owner, int, int]], clock: list[int]
) -> None:
    """While a series lives, its values only grow, and its start never moves to a later time."""
    ledger = Ledger()
    last: dict[Owner, Series] = {}
    for (owner, calls, first), drift in zip(periods, clock, strict=False):
        series = step(ledger, {owner: usage(calls, first)}, offset=OFFSET + drift)
        for each in series.values():
            before = last.get(each.owner)
            for key, point in before.calls.items() if before else ():
                assert each.calls[key].value >= point.value
                assert each.calls[key].start_unix_ns <= point.start_unix_ns
        last = {each.owner: each for each in series.values()}
