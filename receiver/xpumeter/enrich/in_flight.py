# SPDX-License-Identifier: Apache-2.0
"""Calls that did not return yet: how many, and for how long, so that a hung device is visible."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from xpumeter.model.calls import Kind
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.kernel import CgroupId, Incarnation, OpenCall
from xpumeter.model.owners import Owner
from xpumeter.model.series import InFlight, Series, Snapshot

Place = tuple[Owner, DeviceId]
"""Where series are: one Resource."""


def in_flight(
    calls: Iterable[OpenCall],
    devices: Mapping[Incarnation, KnownDevice],
    owners: Mapping[CgroupId, Owner],
    *,
    now_ns: int,
) -> dict[Place, dict[Kind, InFlight]]:
    """Calls in flight by owner, device and kind; without those of whom one is not known.

    `now_ns` is when they were read, CLOCK_MONOTONIC. No age is below 0.
    """
    found: dict[Place, dict[Kind, InFlight]] = {}
    for call in calls:
        device, owner = devices.get(call.device), owners.get(call.cgroup_id)
        if device is None or owner is None:
            continue
        kinds = found.setdefault((owner, device.device_id), {})
        kind = device.kinds.get(call.nr, Kind.OTHER)
        so_far = kinds.get(kind, InFlight(0, 0))
        age_ns = max(so_far.oldest_ns, now_ns - call.start_ns)
        kinds[kind] = InFlight(so_far.calls + 1, age_ns)
    return found


def add_in_flight(
    snapshot: Snapshot,
    found: Mapping[Place, Mapping[Kind, InFlight]],
    *,
    since_unix_ns: int,
) -> Snapshot:
    """The snapshot with the calls in flight in its series; those without any stay as they are.

    An owner whose first call did not return yet has a series of just this. One that waits for a
    call has not ended, though its cgroup be gone. `since_unix_ns` is when counting began.
    """
    left = dict(found)
    series: list[Series] = []
    for each in snapshot.series:
        calls = left.pop((each.owner, each.device.device_id), None)
        series.append(replace(each, in_flight=calls, ended=False) if calls else each)
    devices = {device.device_id: device for device in snapshot.devices}
    series += [
        Series(owner, devices[device_id], {}, {}, {}, ended=False, in_flight=calls)
        for (owner, device_id), calls in left.items()
    ]
    return replace(snapshot, series=tuple(series), since_unix_ns=since_unix_ns)
