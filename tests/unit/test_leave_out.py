# SPDX-License-Identifier: Apache-2.0
"""What is not selected has no series, and the sum is what it was."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpumeter.enrich.leave_out import leave_out, leave_out_in_flight
from xpumeter.model.calls import Kind, Reason
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.owners import Owner
from xpumeter.model.selection import Patterns, Selection
from xpumeter.model.series import Attribution, InFlight, Tally, Usage

CARD = KnownDevice(DeviceId("0000:03:00.0"), "xe", None, None, None, None, None, {})
DISPLAY = KnownDevice(DeviceId("0000:07:00.0"), "ast", None, None, None, None, None, {})
DEVICES = {device.device_id: device for device in (CARD, DISPLAY)}
TRAINER = Owner("ml", "trainer-0", "uid-1", "main", "c" * 64)
PROXY = Owner("kube-system", "proxy-x", "uid-2", "main", "d" * 64)
UNNAMED = Owner(pod_uid="uid-3", container_id="e" * 64)
MEDIA = Owner(cgroup="/system.slice/media.service")
PLAIN = Owner(container_id="f" * 64)
OWNERS = (TRAINER, PROXY, UNNAMED, MEDIA, PLAIN)
ONE = Usage(
    calls={
        (Kind.SUBMIT, 0): Tally(7, 50),
        (Kind.SUBMIT, 12): Tally(2, 40),
        (Kind.WAIT, 0): Tally(5, 60),
    },
    time_ns={Kind.SUBMIT: Tally(900, 40), Kind.WAIT: Tally(800, 60)},
    interrupted={Kind.WAIT: Tally(3, 70)},
)


def attribution(
    usages: Mapping[tuple[Owner, DeviceId], Usage] | None = None,
    unattributed: Mapping[tuple[DeviceId | None, Reason], Tally] | None = None,
) -> Attribution:
    """By default everybody has called the one device."""
    everybody = {(owner, CARD.device_id): ONE for owner in OWNERS}
    return Attribution(
        usages=everybody if usages is None else usages,
        unattributed=unattributed or {},
        ended=frozenset(),
        devices=DEVICES,
    )


def total(of: Attribution) -> int:
    """All calls in it."""
    every = [*of.unattributed.values()]
    for usage in of.usages.values():
        every += [*usage.calls.values(), *usage.interrupted.values()]
    return sum(tally.value for tally in every)


def left(selection: Selection, **options: Any) -> set[Owner]:
    """Who is shown."""
    after = leave_out(attribution(), selection, **options)
    assert total(after) == total(attribution())
    return {owner for owner, _ in after.usages}


def names(*patterns: str) -> Patterns:
    return Patterns(include=patterns)


def but(*patterns: str) -> Patterns:
    return Patterns(exclude=patterns)


@pytest.mark.parametrize(
    ("selection", "shown"),
    [
        (Selection(), OWNERS),
        (Selection(namespaces=but("kube-*")), (TRAINER, UNNAMED, MEDIA, PLAIN)),
        (Selection(namespaces=names("ml")), (TRAINER, MEDIA, PLAIN)),
        (Selection(namespaces=but("*")), (MEDIA, PLAIN)),
        (Selection(namespaces=Patterns(("ml", "kube-*"), ("*-system",))), (TRAINER, MEDIA, PLAIN)),
        (Selection(pods=but("trainer-?")), (PROXY, UNNAMED, MEDIA, PLAIN)),
        (Selection(pods=names("*-[0-9]")), (TRAINER, MEDIA, PLAIN)),
        (Selection(host=but("*/media.service")), (TRAINER, PROXY, UNNAMED, PLAIN)),
        (Selection(host=names("/system.slice/*")), (TRAINER, PROXY, UNNAMED, MEDIA)),
        (Selection(host_on=False), (TRAINER, PROXY, UNNAMED)),
        (Selection(devices=but("0000:03:*")), ()),
        (Selection(devices=but("xe")), ()),
        (Selection(devices=names("ast", "0000:03:00.0")), OWNERS),
        (Selection(devices=but("ast")), OWNERS),
        (Selection(kinds=but("*")), ()),
    ],
)
def test_who_is_shown(selection: Selection, shown: tuple[Owner, ...]) -> None:
    """By namespace, pod, device, kind and cgroup; an unknown name is empty."""
    assert left(selection) == set(shown)


def test_what_is_left_out_is_under_its_reason_on_its_device() -> None:
    """With the start of its first call, beside what was without an owner before."""
    before = attribution(
        {(TRAINER, CARD.device_id): ONE, (MEDIA, DISPLAY.device_id): ONE},
        {(CARD.device_id, Reason.FILTERED): Tally(1, 30), (None, Reason.LAPSED): Tally(4, 9)},
    )

    after = leave_out(before, Selection(namespaces=but("ml"), host_on=False))

    assert after.usages == {}
    assert after.unattributed == {
        (CARD.device_id, Reason.FILTERED): Tally(18, 30),
        (DISPLAY.device_id, Reason.HOST_OFF): Tally(17, 40),
        (None, Reason.LAPSED): Tally(4, 9),
    }


def test_of_a_kind_that_is_left_out_nothing_is_shown() -> None:
    """Calls, failures, time and interruptions; the other kinds stay whole."""
    after = leave_out(attribution({(TRAINER, CARD.device_id): ONE}), Selection(kinds=but("wait")))

    assert after.usages == {
        (TRAINER, CARD.device_id): Usage(
            calls={(Kind.SUBMIT, 0): Tally(7, 50), (Kind.SUBMIT, 12): Tally(2, 40)},
            time_ns={Kind.SUBMIT: Tally(900, 40)},
            interrupted={},
        )
    }
    assert after.unattributed == {(CARD.device_id, Reason.FILTERED): Tally(8, 60)}


def test_a_pod_that_waits_for_its_name_is_not_shown_before_it() -> None:
    """It would be there under its uid, and vanish when it turns out to be in kube-system."""
    by_name = Selection(namespaces=but("kube-*"))

    assert UNNAMED not in left(by_name, waiting=frozenset({UNNAMED}))
    assert UNNAMED in left(by_name)
    assert UNNAMED in left(Selection(host=but("/x")), waiting=frozenset({UNNAMED}))
    assert PLAIN not in left(by_name, waiting=frozenset({PLAIN}))


def test_a_container_without_a_name_in_a_pod_with_one_waits_for_nobody() -> None:
    """The pod's names are what the filter asks for."""
    half = Owner("ml", "trainer-0", "uid-1", None, "c" * 64)
    before = attribution({(half, CARD.device_id): ONE})

    after = leave_out(before, Selection(pods=but("x")), frozenset({half}))

    assert after.usages == before.usages


def test_what_is_shown_as_a_whole_is_the_same_object() -> None:
    """So that who compares by identity need not look at it; without a filter all of it is."""
    before = attribution()

    after = leave_out(before, Selection(namespaces=but("kube-*"), kinds=but("free")))

    assert leave_out(before, Selection()) is before
    assert all(usage is ONE for usage in after.usages.values())


def test_calls_in_flight_are_left_out_alike() -> None:
    """A hung call of who is not selected is not shown either."""
    calls = {Kind.WAIT: InFlight(2, 9), Kind.SUBMIT: InFlight(1, 3)}
    found = {(owner, CARD.device_id): calls for owner in OWNERS}
    selection = Selection(
        namespaces=but("kube-*"), kinds=but("submit"), host=but("/system.slice/*")
    )

    after = leave_out_in_flight(found, DEVICES, selection, frozenset({UNNAMED}))

    assert after == {
        (TRAINER, CARD.device_id): {Kind.WAIT: InFlight(2, 9)},
        (PLAIN, CARD.device_id): {Kind.WAIT: InFlight(2, 9)},
    }
    assert leave_out_in_flight(found, DEVICES, Selection(kinds=but("wait", "sub*"))) == {}
    assert leave_out_in_flight(found, DEVICES, Selection()) is found


TALLIES = st.builds(Tally, st.integers(1, 999), st.integers(1, 999))
KINDS = st.sampled_from(Kind)


@st.composite
def used(draw: st.DrawFn) -> Usage:
    """Calls and interruptions, each kind with its time, as rows leave it."""
    calls = draw(st.dictionaries(st.tuples(KINDS, st.sampled_from([0, 12])), TALLIES, max_size=4))
    interrupted = draw(st.dictionaries(KINDS, TALLIES, max_size=2))
    kinds = {kind for kind, _ in calls} | interrupted.keys()
    return Usage(calls, {kind: Tally(0, 1) for kind in kinds}, interrupted)


PATTERN = st.sampled_from(["*", "?*", "", "ml", "kube-*", "*-0", "xe", "0000:0[37]*", "/system*"])
PATTERNS = st.builds(
    Patterns,
    include=st.lists(PATTERN, min_size=1, max_size=3).map(tuple),
    exclude=st.lists(PATTERN, max_size=2).map(tuple),
)
KIND_PATTERNS = st.builds(
    Patterns,
    include=st.lists(st.sampled_from(["*", *Kind]), min_size=1, max_size=3).map(tuple),
    exclude=st.lists(KINDS.map(str), max_size=2).map(tuple),
)
SELECTIONS = st.builds(
    Selection,
    namespaces=PATTERNS,
    pods=PATTERNS,
    devices=PATTERNS,
    kinds=KIND_PATTERNS,
    host=PATTERNS,
    host_on=st.booleans(),
)
PLACES = st.tuples(st.sampled_from(OWNERS), st.sampled_from(list(DEVICES)))
RESTS = st.tuples(st.sampled_from([None, *DEVICES]), st.sampled_from(Reason))


@given(
    st.dictionaries(PLACES, used(), max_size=8),
    st.dictionaries(RESTS, TALLIES, max_size=4),
    SELECTIONS,
    st.frozensets(st.sampled_from(OWNERS)),
)
def test_the_sum_is_the_same_whatever_is_left_out(
    usages: dict[tuple[Owner, DeviceId], Usage],
    unattributed: dict[tuple[DeviceId | None, Reason], Tally],
    selection: Selection,
    waiting: frozenset[Owner],
) -> None:
    """Conservation, per device; and nobody is shown who was not there."""
    before = attribution(usages, unattributed)

    after = leave_out(before, selection, waiting)

    for device_id in (None, *DEVICES):
        assert total(_of(after, device_id)) == total(_of(before, device_id))
    assert after.usages.keys() <= before.usages.keys()
    for key, tally in before.unattributed.items():
        assert after.unattributed[key].value >= tally.value


def _of(all_devices: Attribution, device_id: DeviceId | None) -> Attribution:
    return attribution(
        {at: usage for at, usage in all_devices.usages.items() if at[1] == device_id},
        {at: tally for at, tally in all_devices.unattributed.items() if at[0] == device_id},
    )


def test_who_waits_for_a_name_is_apart_from_what_is_left_out() -> None:
    """`filtered` never falls; `unnamed` does, when names arrive."""
    by_name = Selection(namespaces=Patterns(exclude=("kube-*",)))

    found = leave_out(attribution(), by_name, waiting=frozenset({UNNAMED}))

    assert {key[1] for key in found.unattributed} == {Reason.FILTERED, Reason.UNNAMED}
    assert found.unattributed[CARD.device_id, Reason.UNNAMED].value == 17


def test_a_device_is_known_by_its_address_whoever_drove_it_before() -> None:
    """Another driver at an address has an id of its own; users see the address."""
    second = replace(CARD, device_id=DeviceId("0000:03:00.0 xe"))
    usages = {(TRAINER, second.device_id): ONE}
    devices = {second.device_id: second}
    several = Attribution(usages, {}, frozenset(), devices)

    found = leave_out(several, Selection(devices=Patterns(exclude=("0000:03:00.0",))))

    assert not found.usages
