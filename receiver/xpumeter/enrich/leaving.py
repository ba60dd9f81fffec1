# SPDX-License-Identifier: Apache-2.0
"""Which callers nobody waits for any more."""

from collections.abc import Iterable, Mapping, Set

from xpumeter.enrich.leave_out import reason_of
from xpumeter.enrich.past import Leaving
from xpumeter.model.calls import RESTARTS, Reason
from xpumeter.model.devices import KnownDevice
from xpumeter.model.kernel import Incarnation
from xpumeter.model.owners import Identity, Owner
from xpumeter.model.past import Result, Settled
from xpumeter.model.selection import Selection
from xpumeter.model.series import Attribution, Usage

SELECT_ALL = Selection()

WAITING_LIMIT = 10_000
"""Sums of ended callers that are kept for a Collector that is away: as many as rows fit into the
kernel, roughly."""


def leaving(
    settled: Iterable[Settled],
    present: Set[Owner],
    devices: Mapping[Incarnation, KnownDevice],
    shown: Attribution,
    told: Set[Owner],
    *,
    unanswered: Set[Owner] = frozenset(),
    selection: Selection = SELECT_ALL,
    limit: int = WAITING_LIMIT,
) -> Leaving:
    """Callers whose settled sums have no use any more.

    They have ended, none of their rows is left (`present` are the owners of rows), and their end
    was delivered (`told`), or nothing of them is in `shown`, and not only for as long as a filter
    by name waits for their names (`unanswered`). Of those that still wait for that the
    first ones of `settled` leave too when all together have more than `limit` sums: their calls
    are undelivered then.
    """
    exported = {owner for owner, _ in shown.usages}
    done: dict[Identity, Mapping[tuple[Incarnation, Result], Reason]] = {}
    waiting: dict[Identity, Settled] = {}
    for each in settled:
        if each.identity is None or each.owner not in shown.ended or each.owner in present:
            continue
        left_out = each.owner not in exported and each.owner not in unanswered
        if each.owner in told or left_out:
            done[each.identity] = _not_shown(each, devices, shown, selection)
        else:
            waiting[each.identity] = each

    too_many = sum(map(_size, waiting.values())) - limit
    for identity, each in waiting.items():
        if too_many <= 0:
            break
        undelivered = {
            (device, result): Reason.UNDELIVERED
            for device, sums in each.sums.items()
            for result in sums
        }
        done[identity] = undelivered | _not_shown(each, devices, shown, selection)
        too_many -= _size(each)
    return done


def _size(settled: Settled) -> int:
    return sum(map(len, settled.sums.values()))


def _not_shown(
    settled: Settled,
    devices: Mapping[Incarnation, KnownDevice],
    shown: Attribution,
    selection: Selection,
) -> dict[tuple[Incarnation, Result], Reason]:
    """Results of which no series had a part: they were left out, or their device is not known."""
    reasons: dict[tuple[Incarnation, Result], Reason] = {}
    for incarnation, sums in settled.sums.items():
        device = devices.get(incarnation)
        usage, reason = None, Reason.UNKNOWN_DEVICE
        if device is not None and settled.owner is not None:
            usage = shown.usages.get((settled.owner, device.device_id))
            reason = reason_of(settled.owner, device, selection) or Reason.FILTERED
        for result in sums:
            if usage is None or not _has(usage, result):
                reasons[incarnation, result] = reason
    return reasons


def _has(usage: Usage, result: Result) -> bool:
    kind, error = result
    return kind in usage.interrupted if error in RESTARTS else result in usage.calls
