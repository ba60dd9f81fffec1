# SPDX-License-Identifier: Apache-2.0
"""Compares the two accounts that the kernel keeps of each call: its row, and its device's total."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from xpumeter.model.kernel import Incarnation, Reading
from xpumeter.model.past import Past


class Difference(NamedTuple):
    """Calls by which they differ: 0 and 0, or a fault.

    `missing` calls are in the totals and nowhere else; `surplus` calls are not in the totals.
    """

    missing: int
    surplus: int


class Audit:
    """Checks each reading on its own and against the one before it."""

    def __init__(self) -> None:
        self._seen: Mapping[Incarnation, int] = {}

    def check(self, reading: Reading, past: Past) -> Difference:
        """How far the accounts differ. `past` is what was settled by this reading.

        A return adds to its row first and to its device's total after that. So rows that are read
        after the totals hold at least what these say. The other way round a call may be between
        its row and its total for as long as the kernel leaves its thread there, and no map knows
        how many are; but what was seen a period ago has long arrived in the totals.
        """
        held = _held(reading, past)
        # Of the second reading: a call that is in the first one's `returns` may have been refused
        # after its `refused` was read.
        elsewhere = {total.device: total.refused + total.lapsed for total in reading.totals}
        returns = {total.device: total.returns for total in reading.totals_before}
        missing = sum(
            max(0, count - elsewhere.get(device, 0) - held[device])
            for device, count in returns.items()
        )
        surplus = sum(
            max(0, count - returns.get(device, 0)) for device, count in self._seen.items()
        )
        self._seen = held + Counter(elsewhere)
        return Difference(missing, surplus)


def _held(reading: Reading, past: Past) -> Counter[Incarnation]:
    """Calls that have or had a row, by device."""
    held = Counter(past.ended)
    for row in reading.rows:
        held[row.device] += row.calls
    for by_device in past.settled.values():
        for device, sums in by_device.items():
            held[device] += sum(each.calls for each in sums.values())
    for (device, _), each in past.unattributed.items():
        held[device] += each.calls
    return held
