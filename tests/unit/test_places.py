# SPDX-License-Identifier: Apache-2.0
"""What did not change is not added up again, and the sums are the same all the same."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from xpumeter.enrich.attribute import attribute
from xpumeter.enrich.places import Places
from xpumeter.model.calls import Kind
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.kernel import CgroupId, Incarnation, Losses, Reading, Row
from xpumeter.model.owners import Owner

CARD = KnownDevice(
    DeviceId("0000:03:00.0"), "xe", None, None, None, None, None, {0x49: Kind.SUBMIT}
)
RELOADED = replace(CARD, kinds={0x49: Kind.ALLOC})
ONE, OTHER = Owner(cgroup="/one"), Owner(cgroup="/other")
DEVICE = Incarnation(1)


def reading(*rows: Row) -> Reading:
    """Rows alone."""
    return Reading((), rows, (), Losses())


def row(cgroup: int, calls: int, nr: int = 0x49) -> Row:
    """On the card."""
    return Row(CgroupId(cgroup), DEVICE, nr, 0, calls, 0, 5)


def test_a_usage_that_did_not_change_is_the_same_object() -> None:
    """Also when others come and go, so that nobody after it has to look."""
    places = Places()
    owners = {CgroupId(1): ONE, CgroupId(2): OTHER}
    still, busy = row(1, calls=7), row(2, calls=1)

    def usages(*rows: Row) -> dict[str | None, object]:
        found = attribute(reading(*rows), {DEVICE: CARD}, owners, set(), places=places)
        return {owner.cgroup: usage for (owner, _), usage in found.usages.items()}

    first = usages(still, busy)
    later = usages(still, busy._replace(calls=2))
    new = usages(row(3, calls=1), still)

    assert first["/one"] is later["/one"] is new["/one"]
    assert first["/other"] != later["/other"]
    assert new.keys() == {"/one"}


PERIODS = st.lists(
    st.tuples(
        st.lists(
            st.builds(row, st.integers(1, 4), st.integers(1, 3), st.sampled_from([0x49, 0x4A])),
            unique_by=lambda each: (each.cgroup_id, each.nr),
        ),
        st.sampled_from([{DEVICE: CARD}, {DEVICE: RELOADED}, {}]),
        st.dictionaries(st.integers(1, 3).map(CgroupId), st.sampled_from([ONE, OTHER])),
    ),
    max_size=8,
)


@given(PERIODS)
def test_what_was_kept_makes_no_difference(
    periods: list[tuple[list[Row], dict[Incarnation, KnownDevice], dict[CgroupId, Owner]]],
) -> None:
    """Rows that change, come, go and move, names that come late, tables that change."""
    places = Places()
    for rows, devices, owners in periods:
        kept = attribute(reading(*rows), devices, owners, set(), places=places)
        fresh = attribute(reading(*rows), devices, owners, set())

        assert kept == fresh
