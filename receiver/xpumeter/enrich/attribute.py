# SPDX-License-Identifier: Apache-2.0
"""Rows x devices x owners: whose calls these were."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set

from xpumeter.model.calls import RESTARTS, Kind, Reason
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.kernel import CgroupId, Incarnation, Reading
from xpumeter.model.owners import Owner
from xpumeter.model.series import Attribution, Tally, Usage

# Drivers say -ENOIOCTLCMD to a call that they do not know; vfs_ioctl() makes it -ENOTTY.
_ENOIOCTLCMD = 515
_ENOTTY = 25

_Sums = dict[tuple[Kind, int], list[int]]
"""(kind, error) to [calls, time_ns, first_boot_ns], while rows add up."""


def attribute(
    reading: Reading,
    devices: Mapping[Incarnation, KnownDevice],
    owners: Mapping[CgroupId, Owner],
    dead: Set[CgroupId],
    *,
    attached_boot_ns: int = 0,
    nobody: Reason = Reason.UNKNOWN_CGROUP,
) -> Attribution:
    """Say whose calls these were.

    Every call lands in exactly one place: in the usage of an owner and a device, or in
    `unattributed` under the reason why it has none. So both sides of the sum are equal, whatever
    comes in.

    Rows add up when they mean the same: two incarnations of one device, two cgroups of one
    container, two call numbers of one kind. What found no row has no first call of its own:
    `attached_boot_ns` (CLOCK_BOOTTIME), when counting began, stands in for it. `nobody` is the
    reason of a call whose cgroup has no owner.
    """
    usages: dict[tuple[Owner, DeviceId], _Sums] = {}
    rest: dict[tuple[DeviceId | None, Reason], _Sums] = {}
    # Where the rows of one cgroup on one device add up, and with which kinds. Hashing an owner
    # costs more than the rest of a row, so it is not done for each.
    places: dict[tuple[CgroupId, Incarnation], tuple[_Sums, Mapping[int, Kind]]] = {}

    for row in reading.rows:
        at = (row.cgroup_id, row.device)
        place = places.get(at)
        if place is None:
            device = devices.get(row.device)
            owner = owners.get(row.cgroup_id)
            if device is None:
                place = rest.setdefault((None, Reason.UNKNOWN_DEVICE), {}), {}
            elif owner is None:
                key = (device.device_id, nobody)
                place = rest.setdefault(key, {}), {}
            else:
                place = usages.setdefault((owner, device.device_id), {}), device.kinds
            places[at] = place

        sums, kinds = place
        error = _ENOTTY if row.error == _ENOIOCTLCMD else row.error
        result = (kinds.get(row.nr, Kind.OTHER), error)
        so_far = sums.get(result)
        if so_far is None:
            sums[result] = [row.calls, row.time_ns, row.first_boot_ns]
        else:
            so_far[0] += row.calls
            so_far[1] += row.time_ns
            so_far[2] = min(so_far[2], row.first_boot_ns)

    unattributed = {key: _sum(sums.values()) for key, sums in rest.items()}
    unattributed |= _without_row(reading, devices, attached_boot_ns)
    return Attribution(
        usages={key: _usage(sums) for key, sums in usages.items()},
        unattributed=unattributed,
        ended=_ended(reading, owners, dead),
        # The newest incarnation knows best what is there now.
        devices={devices[each].device_id: devices[each] for each in sorted(devices)},
    )


def missing(reading: Reading) -> int:
    """How many calls the kernel counted and no row holds: 0, or a fault.

    A return adds to its row first and to its device's total after that, so rows that are read
    after the totals hold at least what these say.
    """
    in_rows: Counter[Incarnation] = Counter()
    for row in reading.rows:
        in_rows[row.device] += row.calls
    return sum(
        max(0, total.returns - total.refused - total.lapsed - in_rows[total.device])
        for total in reading.totals_before
    )


def _usage(sums: _Sums) -> Usage:
    calls: dict[tuple[Kind, int], Tally] = {}
    time_ns: dict[Kind, Tally] = {}
    interrupted: dict[Kind, Tally] = {}
    for result, (count, time, first) in sums.items():
        kind, error = result
        time_ns[kind] = _plus(time_ns.get(kind), time, first)
        if error in RESTARTS:
            interrupted[kind] = _plus(interrupted.get(kind), count, first)
        else:
            calls[result] = Tally(count, first)
    return Usage(calls=calls, time_ns=time_ns, interrupted=interrupted)


def _sum(sums: Iterable[Sequence[int]]) -> Tally:
    every = list(sums)
    return Tally(sum(calls for calls, _, _ in every), min(first for _, _, first in every))


def _plus(so_far: Tally | None, value: int, first_boot_ns: int) -> Tally:
    if so_far is None:
        return Tally(value, first_boot_ns)
    return Tally(so_far.value + value, min(so_far.first_boot_ns, first_boot_ns))


def _without_row(
    reading: Reading, devices: Mapping[Incarnation, KnownDevice], attached_boot_ns: int
) -> dict[tuple[DeviceId | None, Reason], Tally]:
    calls: Counter[tuple[DeviceId | None, Reason]] = Counter()
    for total in reading.totals:
        device = devices.get(total.device)
        device_id = device.device_id if device else None
        calls[device_id, Reason.ROWS_FULL] += total.refused
        calls[device_id, Reason.LAPSED] += total.lapsed
    return {key: Tally(count, attached_boot_ns) for key, count in calls.items() if count}


def _ended(
    reading: Reading, owners: Mapping[CgroupId, Owner], dead: Set[CgroupId]
) -> frozenset[Owner]:
    callers = {row.cgroup_id for row in reading.rows} & owners.keys()
    alive = {owners[cgroup] for cgroup in callers - dead}
    return frozenset(owners[cgroup] for cgroup in callers & dead) - alive
