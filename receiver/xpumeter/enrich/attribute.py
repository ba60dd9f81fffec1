# SPDX-License-Identifier: Apache-2.0
"""Rows x devices x owners: whose calls these were."""

from collections.abc import Iterable, Iterator, Mapping, Set

from xpumeter.enrich.places import Places
from xpumeter.model.calls import Reason
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.kernel import CgroupId, Incarnation, Reading
from xpumeter.model.owners import Owner
from xpumeter.model.past import Settled, Sum, Sums
from xpumeter.model.series import Attribution, Tally


def attribute(
    reading: Reading,
    devices: Mapping[Incarnation, KnownDevice],
    owners: Mapping[CgroupId, Owner],
    dead: Set[CgroupId],
    *,
    settled: Iterable[Settled] = (),
    given_up: Mapping[tuple[Incarnation, Reason], Sum] | None = None,
    attached_boot_ns: int = 0,
    nobody: Reason = Reason.UNKNOWN_CGROUP,
    places: Places | None = None,
) -> Attribution:
    """Say whose calls these were.

    Every call lands in exactly one place: in the usage of an owner and a device, or in
    `unattributed` under the reason why it has none. So both sides of the sum are equal, whatever
    comes in.

    Rows add up when they mean the same: two incarnations of one device, two cgroups of one
    container, two call numbers of one kind; and so do rows that are gone, `settled`. `given_up`
    are calls that have no series any more. What found no row has no first call of its own:
    `attached_boot_ns` (CLOCK_BOOTTIME), when counting began, stands in for it. `nobody` is the
    reason of a call whose cgroup has no owner. With the `places` of the last period, what did not
    change is not added up again.
    """
    places = Places() if places is None else places
    settled = tuple(settled)
    usages: dict[tuple[Owner, DeviceId], list[Sums]] = {}
    rest: dict[tuple[DeviceId | None, Reason], Sum] = {}

    for owner, incarnation, sums in _parts(reading, devices, owners, settled, places):
        device = devices.get(incarnation)
        if device is not None and owner is not None:
            usages.setdefault((owner, device.device_id), []).append(sums)
        elif device is not None:
            _add(rest, (device.device_id, nobody), sums.values())
        else:
            _add(rest, (None, Reason.UNKNOWN_DEVICE), sums.values())
    for (incarnation, reason), gone in (given_up or {}).items():
        _add(rest, (_id_of(incarnation, devices), reason), [gone])
    for total in reading.totals:
        for reason, calls in (Reason.ROWS_FULL, total.refused), (Reason.LAPSED, total.lapsed):
            if calls:
                key = (_id_of(total.device, devices), reason)
                _add(rest, key, [Sum(calls, 0, attached_boot_ns)])

    return Attribution(
        usages=places.usages(usages),
        unattributed={key: Tally(each.calls, each.first_boot_ns) for key, each in rest.items()},
        ended=_ended(reading, owners, dead, settled),
        # The newest incarnation knows best what is there now.
        devices={devices[each].device_id: devices[each] for each in sorted(devices)},
    )


def _parts(
    reading: Reading,
    devices: Mapping[Incarnation, KnownDevice],
    owners: Mapping[CgroupId, Owner],
    settled: Iterable[Settled],
    places: Places,
) -> Iterator[tuple[Owner | None, Incarnation, Sums]]:
    """All that was counted with a cgroup, each with its owner, if it has one."""
    for (cgroup_id, incarnation), sums in places.sums(reading.rows, devices).items():
        yield owners.get(cgroup_id), incarnation, sums
    for each in settled:
        for incarnation, sums in each.sums.items():
            yield each.owner, incarnation, sums


def _add(
    rest: dict[tuple[DeviceId | None, Reason], Sum],
    key: tuple[DeviceId | None, Reason],
    sums: Iterable[Sum],
) -> None:
    for each in sums:
        so_far = rest.get(key)
        rest[key] = so_far.plus(each) if so_far else each


def _id_of(incarnation: Incarnation, devices: Mapping[Incarnation, KnownDevice]) -> DeviceId | None:
    device = devices.get(incarnation)
    return device.device_id if device else None


def _ended(
    reading: Reading,
    owners: Mapping[CgroupId, Owner],
    dead: Set[CgroupId],
    settled: Iterable[Settled],
) -> frozenset[Owner]:
    gone = {owners[cgroup] for cgroup in dead & owners.keys()}
    gone |= {each.owner for each in settled if each.owner is not None and not each.alive}
    if not gone:
        return frozenset()
    callers = {row.cgroup_id for row in reading.rows} & owners.keys()
    living = {owners[cgroup] for cgroup in callers - dead}
    return frozenset(gone - living - {each.owner for each in settled if each.alive})
