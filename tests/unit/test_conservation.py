# SPDX-License-Identifier: Apache-2.0
"""The kernel keeps two accounts of each call, and the agent compares them."""

from xpumeter.enrich.conservation import Audit, Difference
from xpumeter.model.calls import Kind, Reason
from xpumeter.model.kernel import CgroupId, DeviceTotal, Incarnation, Losses, Reading, Row
from xpumeter.model.owners import Identity
from xpumeter.model.past import Past, Sum

CARD, OTHER = Incarnation(1), Incarnation(2)
SOUND = Difference(0, 0)


def row(calls: int, device: Incarnation = CARD) -> Row:
    """Of anybody."""
    return Row(CgroupId(7), device, 0x49, 0, calls, 0, 5)


def reading(*rows: Row, before: tuple[DeviceTotal, ...], after: tuple[DeviceTotal, ...]) -> Reading:
    """Rows between two readings of the totals."""
    return Reading(before, rows, after, Losses())


def check(*rows: Row, totals: tuple[DeviceTotal, ...], past: Past | None = None) -> Difference:
    """A reading on its own, the totals as before so after."""
    return Audit().check(reading(*rows, before=totals, after=totals), past or Past())


def test_missing_is_what_the_kernel_counted_and_no_row_holds() -> None:
    """Rows may hold more than the totals read before them, never less."""
    sound = DeviceTotal(CARD, returns=10, refused=2, lapsed=1)

    assert check(row(7), totals=(sound,)) == SOUND
    assert check(row(9), totals=(sound,)) == SOUND
    assert check(row(4), totals=(sound,)) == Difference(3, 0)
    # Too much on one device does not hide what another lacks.
    lacking = DeviceTotal(OTHER, returns=5, refused=0, lapsed=0)
    assert check(row(99), totals=(sound, lacking)) == Difference(5, 0)


def test_rows_that_are_gone_are_not_missing() -> None:
    """Wherever their calls are by now; of each device its own."""
    past = Past(
        settled={
            Identity("/a"): {CARD: {(Kind.SUBMIT, 0): Sum(1, 0, 5)}},
            None: {CARD: {(Kind.WAIT, 512): Sum(2, 0, 5)}, OTHER: {(Kind.WAIT, 0): Sum(9, 0, 5)}},
        },
        ended={CARD: 4},
        unattributed={(CARD, Reason.UNDELIVERED): Sum(8, 0, 5)},
    )
    card = DeviceTotal(CARD, returns=16, refused=0, lapsed=0)
    other = DeviceTotal(OTHER, returns=9, refused=0, lapsed=0)

    assert check(row(1), totals=(card, other), past=past) == SOUND
    more = DeviceTotal(CARD, returns=18, refused=0, lapsed=0)
    assert check(row(1), totals=(more, other), past=past) == Difference(2, 0)


def test_a_call_that_is_refused_while_the_totals_are_read_is_not_missing() -> None:
    """Its return may be seen where its refusal was not yet: the second reading has both."""
    before, after = DeviceTotal(CARD, 5, 0, 0), DeviceTotal(CARD, 6, 2, 0)

    assert Audit().check(reading(row(4), before=(before,), after=(after,)), Past()) == SOUND


def test_surplus_is_what_rows_held_a_period_ago_and_no_total_has() -> None:
    """A call is in its row before it is in the total, but not for a whole period."""
    audit = Audit()
    behind, level = (DeviceTotal(CARD, 9, 0, 0),), (DeviceTotal(CARD, 10, 0, 0),)

    assert audit.check(reading(row(10), before=behind, after=behind), Past()) == SOUND
    assert audit.check(reading(row(12), before=level, after=level), Past()) == SOUND
    assert audit.check(reading(row(12), before=level, after=level), Past()) == Difference(0, 2)


def test_a_row_that_is_gone_is_no_surplus_and_no_loss_a_period_later() -> None:
    """The period after its deletion it is in what was settled, and in the totals as ever."""
    audit = Audit()
    totals = (DeviceTotal(CARD, 10, 0, 0),)
    settled = Past(settled={None: {CARD: {(Kind.SUBMIT, 0): Sum(10, 0, 5)}}})

    assert audit.check(reading(row(10), before=totals, after=totals), Past()) == SOUND
    assert audit.check(reading(before=totals, after=totals), settled) == SOUND
