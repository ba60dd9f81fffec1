# SPDX-License-Identifier: Apache-2.0
"""Every call in exactly one place."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from xpumeter.enrich.attribute import attribute
from xpumeter.model.calls import ERROR_UNSEEN, NR_FOREIGN, HardwareType, Kind, Reason
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.kernel import CgroupId, DeviceTotal, Incarnation, Losses, Reading, Row
from xpumeter.model.owners import Identity, Owner
from xpumeter.model.past import Settled, Sum
from xpumeter.model.series import Attribution, Tally

EXEC, EXEC_TOO, WAIT = 0x49, 0x4A, 0x4B
CALLER, SIDE, STRANGER = CgroupId(100), CgroupId(101), CgroupId(102)
BEFORE, AFTER, OTHER_CARD, NOBODY = map(Incarnation, (1, 2, 3, 0))
TRAINER = Owner("ml", "trainer-0", "uid", "main", "c" * 64)
BATCH = Owner("ml", "batch-0", "uid-2", "main", "d" * 64)
ADDRESS = DeviceId("0000:03:00.0")


def card(device_id: str, driver: str) -> KnownDevice:
    """A card with two kinds of submit and a wait."""
    kinds = {EXEC: Kind.SUBMIT, EXEC_TOO: Kind.SUBMIT, WAIT: Kind.WAIT}
    hw_type = HardwareType.GPU
    return KnownDevice(DeviceId(device_id), driver, hw_type, None, None, None, None, kinds)


DEVICES = {
    BEFORE: card(ADDRESS, "i915"),
    AFTER: card(ADDRESS, "xe"),
    OTHER_CARD: card("0000:05:00.0", "xe"),
}
OWNERS = {CALLER: TRAINER, SIDE: TRAINER, CgroupId(200): BATCH}


def row(
    cgroup: CgroupId = CALLER,
    device: Incarnation = AFTER,
    nr: int = EXEC,
    error: int = 0,
    *,
    calls: int = 1,
    time_ns: int = 0,
    first: int = 5,
) -> Row:
    """A row; what a test does not say does not matter to it."""
    return Row(cgroup, device, nr, error, calls, time_ns, first)


def reading(*rows: Row, totals: tuple[DeviceTotal, ...] = ()) -> Reading:
    """One reading, the totals as before so after."""
    return Reading(totals, rows, totals, Losses())


def result_of(*rows: Row, dead: frozenset[CgroupId] = frozenset()) -> Attribution:
    """Attribution of these rows."""
    return attribute(reading(*rows), DEVICES, OWNERS, dead)


def test_rows_that_mean_the_same_add_up() -> None:
    """Incarnations of a device, cgroups of a container, calls of a kind: one sum, one start."""
    result = result_of(
        row(CALLER, BEFORE, EXEC, calls=7, time_ns=70, first=9),
        row(SIDE, AFTER, EXEC_TOO, calls=5, time_ns=50, first=3),
    )

    (usage,) = result.usages.values()
    assert result.usages.keys() == {(TRAINER, ADDRESS)}
    assert usage.calls == {(Kind.SUBMIT, 0): Tally(12, 3)}
    assert usage.time_ns == {Kind.SUBMIT: Tally(120, 3)}
    assert result.unattributed == {}
    assert result.devices[ADDRESS].driver == "xe"


def test_results_stay_apart_and_their_times_add_up() -> None:
    """A failed call is a point of its own; the time of a kind is that of all its calls."""
    result = result_of(
        row(calls=7, time_ns=70),
        row(error=12, calls=2, time_ns=20, first=4),
        row(error=ERROR_UNSEEN, calls=1),
        row(nr=NR_FOREIGN, calls=3, time_ns=30),
    )

    usage = result.usages[TRAINER, ADDRESS]
    assert usage.calls == {
        (Kind.SUBMIT, 0): Tally(7, 5),
        (Kind.SUBMIT, 12): Tally(2, 4),
        (Kind.SUBMIT, ERROR_UNSEEN): Tally(1, 5),
        (Kind.OTHER, 0): Tally(3, 5),
    }
    assert usage.time_ns == {Kind.SUBMIT: Tally(90, 4), Kind.OTHER: Tally(30, 5)}


def test_a_restart_is_no_call_and_its_time_is_waiting() -> None:
    """A wait that signals interrupted is counted once, with all the time that it took."""
    restarts = [row(nr=WAIT, error=error, calls=2, time_ns=10) for error in (512, 513, 514, 516)]
    result = result_of(*restarts, row(nr=WAIT, calls=1, time_ns=60))

    usage = result.usages[TRAINER, ADDRESS]
    assert usage.calls == {(Kind.WAIT, 0): Tally(1, 5)}
    assert usage.interrupted == {Kind.WAIT: Tally(8, 5)}
    assert usage.time_ns == {Kind.WAIT: Tally(100, 5)}


def test_a_call_that_the_driver_does_not_know_fails_as_callers_see_it() -> None:
    """ENOIOCTLCMD of a driver reaches the caller as ENOTTY: one outcome, not two."""
    result = result_of(row(error=515, calls=2), row(error=25, calls=1))

    assert result.usages[TRAINER, ADDRESS].calls == {(Kind.SUBMIT, 25): Tally(3, 5)}


def test_what_has_no_owner_or_device_says_why() -> None:
    """Calls of a cgroup without a name stay with their device, those of no device with the host."""
    result = result_of(
        row(STRANGER, AFTER, calls=2, first=8),
        row(STRANGER, BEFORE, error=512, calls=1, first=6),
        row(CALLER, NOBODY, calls=4),
        row(STRANGER, NOBODY, calls=8, first=1),
    )

    assert result.usages == {}
    assert result.unattributed == {
        (ADDRESS, Reason.UNKNOWN_CGROUP): Tally(3, 6),
        (None, Reason.UNKNOWN_DEVICE): Tally(12, 1),
    }


def test_calls_without_a_row_are_in_the_sum() -> None:
    """Refused and lapsed calls stand at their device, since counting began; none is not a zero."""
    totals = (
        DeviceTotal(BEFORE, returns=9, refused=4, lapsed=0),
        DeviceTotal(AFTER, returns=9, refused=1, lapsed=2),
        DeviceTotal(OTHER_CARD, returns=9, refused=0, lapsed=0),
        DeviceTotal(NOBODY, returns=1, refused=1, lapsed=0),
    )
    result = attribute(reading(totals=totals), DEVICES, OWNERS, set(), attached_boot_ns=77)

    assert result.unattributed == {
        (ADDRESS, Reason.ROWS_FULL): Tally(5, 77),
        (ADDRESS, Reason.LAPSED): Tally(2, 77),
        (None, Reason.ROWS_FULL): Tally(1, 77),
    }


def test_an_owner_has_ended_when_all_its_cgroups_are_gone() -> None:
    """One cgroup of a container that lives on keeps its series alive."""
    rows = row(CALLER), row(SIDE), row(CgroupId(200)), row(STRANGER)

    assert result_of(*rows).ended == frozenset()
    assert result_of(*rows, dead=frozenset({CALLER, STRANGER})).ended == frozenset()
    assert result_of(*rows, dead=frozenset({CALLER, SIDE})).ended == {TRAINER}


def test_a_cgroup_without_rows_keeps_nobody_alive() -> None:
    """Only cgroups that called count: the others cannot call for this series any more."""
    assert result_of(row(CALLER), dead=frozenset({CALLER})).ended == {TRAINER}


def past_of(owner: Owner | None, calls: int, *, alive: bool) -> Settled:
    """What somebody did in rows that are gone."""
    sums = {(Kind.SUBMIT, 0): Sum(calls, 10 * calls, 3)}
    identity = None if owner is None else Identity("", container_id=owner.container_id)
    return Settled(identity, owner, alive, {BEFORE: sums})


def test_rows_that_are_gone_add_up_with_those_that_are_there() -> None:
    """Cgroups of one container come and go: one sum, which began with the first of them."""
    result = attribute(
        reading(row(CALLER, AFTER, calls=7, time_ns=70)),
        DEVICES,
        OWNERS,
        set(),
        settled=[past_of(TRAINER, 5, alive=True), past_of(None, 2, alive=False)],
        given_up={(BEFORE, Reason.UNDELIVERED): Sum(4, 40, 6)},
    )

    assert result.usages[TRAINER, ADDRESS].calls == {(Kind.SUBMIT, 0): Tally(12, 3)}
    assert result.usages[TRAINER, ADDRESS].time_ns == {Kind.SUBMIT: Tally(120, 3)}
    assert result.unattributed == {
        (ADDRESS, Reason.UNKNOWN_CGROUP): Tally(2, 3),
        (ADDRESS, Reason.UNDELIVERED): Tally(4, 6),
    }


def test_who_has_only_rows_that_are_gone_has_ended_unless_it_can_still_call() -> None:
    """A container whose inner cgroups die lives on; a service that is started again, too."""
    gone, there = past_of(TRAINER, 5, alive=False), past_of(TRAINER, 5, alive=True)
    other = past_of(BATCH, 1, alive=False)

    def ended(*rows: Row, settled: list[Settled], dead: frozenset[CgroupId]) -> frozenset[Owner]:
        return attribute(reading(*rows), DEVICES, OWNERS, dead, settled=settled).ended

    assert ended(settled=[gone, other], dead=frozenset()) == {TRAINER, BATCH}
    assert ended(settled=[there, other], dead=frozenset()) == {BATCH}
    assert ended(row(CALLER), settled=[gone], dead=frozenset()) == frozenset()
    assert ended(row(CALLER), settled=[gone], dead=frozenset({CALLER})) == {TRAINER}


COUNTS = st.integers(0, 2**40)
ROWS = st.builds(
    Row,
    cgroup_id=st.sampled_from([CALLER, SIDE, STRANGER, CgroupId(200)]),
    device=st.sampled_from([BEFORE, AFTER, OTHER_CARD, NOBODY]),
    nr=st.sampled_from([EXEC, EXEC_TOO, WAIT, 0x09, NR_FOREIGN]),
    error=st.sampled_from([0, 12, 25, 512, 513, 514, 515, 516, ERROR_UNSEEN]),
    calls=COUNTS,
    time_ns=COUNTS,
    first_boot_ns=COUNTS,
)
TOTALS = st.builds(
    DeviceTotal,
    device=st.sampled_from([BEFORE, AFTER, OTHER_CARD, NOBODY]),
    returns=COUNTS,
    refused=COUNTS,
    lapsed=COUNTS,
)


@given(
    st.lists(ROWS),
    st.lists(TOTALS, unique_by=lambda total: total.device),
    st.frozensets(st.sampled_from([CALLER, SIDE, STRANGER])),
)
def test_no_call_is_lost_or_counted_twice(
    rows: list[Row], totals: list[DeviceTotal], dead: frozenset[CgroupId]
) -> None:
    """Per device, usages and unattributed together hold what the kernel counted."""
    result = attribute(reading(*rows, totals=tuple(totals)), DEVICES, OWNERS, dead)

    placed: Counter[DeviceId | None] = Counter()
    for (_, device_id), usage in result.usages.items():
        for tallies in (usage.calls, usage.interrupted):
            placed[device_id] += sum(tally.value for tally in tallies.values())
    for (place, _), tally in result.unattributed.items():
        placed[place] += tally.value

    counted: Counter[DeviceId | None] = Counter()
    for each in rows:
        known = DEVICES.get(each.device)
        counted[known.device_id if known else None] += each.calls
    for total in totals:
        known = DEVICES.get(total.device)
        counted[known.device_id if known else None] += total.refused + total.lapsed
    assert placed == counted


@given(st.lists(ROWS))
def test_no_time_is_lost_or_counted_twice(rows: list[Row]) -> None:
    """Time of what has an owner and a device is in its usage, restarts included."""
    result = result_of(*rows)

    owned = [each for each in rows if each.cgroup_id in OWNERS and each.device in DEVICES]
    placed = [tally.value for usage in result.usages.values() for tally in usage.time_ns.values()]
    assert sum(placed) == sum(each.time_ns for each in owned)
