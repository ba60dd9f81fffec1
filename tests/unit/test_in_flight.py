# SPDX-License-Identifier: Apache-2.0
"""Calls that did not return yet are seen, with their owner, their kind and their age."""

from xpumeter.enrich.in_flight import add_in_flight, in_flight
from xpumeter.model.calls import NR_FOREIGN, Kind
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.kernel import CgroupId, Incarnation, OpenCall
from xpumeter.model.owners import Owner
from xpumeter.model.series import InFlight, Point, Series, Snapshot

CARD = KnownDevice(
    DeviceId("0000:03:00.0"), "xe", None, None, None, None, None, {0x48: Kind.WAIT, 0x49: Kind.WAIT}
)
DEVICES = {Incarnation(1): CARD, Incarnation(2): CARD}
TRAINER, MEDIA = Owner(container_id="c" * 64), Owner(cgroup="/system.slice/media.service")
OWNERS = {CgroupId(7): TRAINER, CgroupId(8): TRAINER, CgroupId(9): MEDIA}
NOW = 1000
AT = (TRAINER, CARD.device_id)


def call(
    cgroup: int = 7, *, device: int = 1, nr: int = 0x48, start: int = 900, tid: int = 1
) -> OpenCall:
    return OpenCall(CgroupId(cgroup), Incarnation(device), nr, start, tid)


def snapshot(*series: Series) -> Snapshot:
    return Snapshot(5, 5, series, (CARD,), {})


def test_what_means_the_same_adds_up_and_the_oldest_counts() -> None:
    """Two cgroups of a container, two incarnations of a device, two numbers of a kind."""
    calls = [call(), call(8, start=400), call(device=2, start=800), call(nr=0x49), call(9)]

    assert in_flight(calls, DEVICES, OWNERS, now_ns=NOW) == {
        AT: {Kind.WAIT: InFlight(4, 600)},
        (MEDIA, CARD.device_id): {Kind.WAIT: InFlight(1, 100)},
    }


def test_a_call_without_a_kind_is_other() -> None:
    """As it will be counted when it returns."""
    found = in_flight([call(nr=1), call(nr=NR_FOREIGN)], DEVICES, OWNERS, now_ns=NOW)

    assert found == {AT: {Kind.OTHER: InFlight(2, 100)}}


def test_a_call_that_began_after_the_reading_has_no_age() -> None:
    """Another CPU's call may begin between the reading and the look at the clock, or after it."""
    found = in_flight([call(start=NOW + 5)], DEVICES, OWNERS, now_ns=NOW)

    assert found == {AT: {Kind.WAIT: InFlight(1, 0)}}


def test_nobody_is_made_up() -> None:
    """An unknown cgroup or device has no place; when the call returns it has a reason."""
    assert in_flight([call(99), call(device=99)], DEVICES, OWNERS, now_ns=NOW) == {}


def test_a_series_of_which_nothing_is_in_flight_is_not_touched() -> None:
    """The same object, so that who compares by identity need not look at it."""
    idle = Series(TRAINER, CARD, {}, {Kind.WAIT: Point(3, 4)}, {}, ended=False)

    (after,) = add_in_flight(snapshot(idle), {}, since_unix_ns=2).series

    assert after is idle


def test_an_owner_whose_first_call_hangs_has_a_series_of_its_own() -> None:
    """Nothing but what is in flight; others keep theirs."""
    idle = Series(MEDIA, CARD, {}, {Kind.WAIT: Point(3, 4)}, {}, ended=False)
    found = {AT: {Kind.WAIT: InFlight(1, 100)}}

    after = add_in_flight(snapshot(idle), found, since_unix_ns=2)

    assert after.since_unix_ns == 2
    assert after.series == (
        idle,
        Series(TRAINER, CARD, {}, {}, {}, ended=False, in_flight={Kind.WAIT: InFlight(1, 100)}),
    )


def test_who_is_in_a_call_has_not_ended() -> None:
    """A thread may be asleep in the driver when its cgroup is gone; its call is still to come."""
    ended = Series(TRAINER, CARD, {}, {Kind.WAIT: Point(3, 4)}, {}, ended=True)
    found = {AT: {Kind.WAIT: InFlight(1, 100)}}

    (busy,) = add_in_flight(snapshot(ended), found, since_unix_ns=2).series
    (done,) = add_in_flight(snapshot(ended), {}, since_unix_ns=2).series

    assert (busy.ended, done.ended) == (False, True)
