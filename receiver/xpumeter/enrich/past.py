# SPDX-License-Identifier: Apache-2.0
"""Keeps the sum of calls whole while the kernel forgets rows.

A row is *pending* from when the kernel may delete it, *settled* once it is seen to be gone, and
*ended* once the end of its series was delivered. Each step is a new `Past`, so that it counts
only when it is written down (see retiring.py).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from xpumeter.enrich.kind_history import key_of
from xpumeter.model.calls import ENOIOCTLCMD, ENOTTY, Kind, Reason
from xpumeter.model.kernel import Incarnation, Row
from xpumeter.model.owners import Identity, Owner
from xpumeter.model.past import Past, Result, Settled, Sum, Sums

Leaving = Mapping[Identity, Mapping[tuple[Incarnation, Result], Reason]]
"""Callers whose end was told, with those of their results that no series showed, and why."""

_Settled = dict[Identity | None, Mapping[Incarnation, Sums]]


def result_of(row: Row, kinds: Mapping[int, Kind]) -> Result:
    """What a row counts, as callers see it."""
    error = row.error
    return kinds.get(row.nr, Kind.OTHER), ENOTTY if error == ENOIOCTLCMD else error


def sum_of(row: Row) -> Sum:
    """All that it has."""
    return Sum(row.calls, row.time_ns, row.first_boot_ns)


def settle(past: Past, rows: Iterable[Row]) -> Past:
    """What was pending is a row among `rows`, or gone: then it is settled. Nothing stays pending.

    A row that a late call made anew after it was deleted began later, and what it has is not what
    the old one had: both count.
    """
    if not past.pending:
        return past
    callers = {each.key.cgroup_id for each in past.pending}
    found = {key_of(row): row for row in rows if row.cgroup_id in callers}
    settled: _Settled = dict(past.settled)
    for each in past.pending:
        if not _is_still(found.get(each.key), each.row):
            by_device = dict(settled.get(each.identity, {}))
            sums = dict(by_device.get(each.key.device, {}))
            so_far = sums.get(each.result)
            sums[each.result] = so_far.plus(each.sum) if so_far else each.sum
            by_device[each.key.device] = sums
            settled[each.identity] = by_device
    return replace(past, pending=(), settled=settled)


def with_owners(
    past: Past, owners: Mapping[Identity, Owner], alive: Set[Identity]
) -> tuple[Settled, ...]:
    """What was settled, longest ago first, with who stands behind it now."""
    return tuple(
        Settled(each, owners.get(each) if each else None, each in alive, sums)
        for each, sums in past.settled.items()
    )


def let_go(past: Past, leaving: Leaving) -> Past:
    """Keep nothing of the callers of `leaving` but how many calls there were."""
    if not leaving:
        return past
    settled = {who: sums for who, sums in past.settled.items() if who not in leaving}
    ended = Counter(past.ended)
    unattributed = dict(past.unattributed)
    for identity, reasons in leaving.items():
        for device, sums in past.settled[identity].items():
            for result, each in sums.items():
                reason = reasons.get((device, result))
                if reason is None:
                    ended[device] += each.calls
                else:
                    so_far = unattributed.get((device, reason))
                    unattributed[device, reason] = so_far.plus(each) if so_far else each
    return Past(past.pending, settled, dict(ended), unattributed)


def _is_still(row: Row | None, last: Sum) -> bool:
    return row is not None and row.first_boot_ns == last.first_boot_ns and row.calls >= last.calls
