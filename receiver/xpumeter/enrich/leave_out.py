# SPDX-License-Identifier: Apache-2.0
"""Leaves out what the configuration names. The sum stays: it has its reason."""

import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from fnmatch import translate
from functools import cache

from xpumeter.enrich.in_flight import Place
from xpumeter.model.calls import Kind, Reason
from xpumeter.model.devices import DeviceId, KnownDevice, address_of
from xpumeter.model.owners import Owner
from xpumeter.model.selection import Patterns, Selection
from xpumeter.model.series import Attribution, InFlight, Tally, Usage


def leave_out(
    attribution: Attribution, selection: Selection, waiting: Set[Owner] = frozenset()
) -> Attribution:
    """The attribution without what is not selected: its calls are `unattributed`, under a reason.

    `host_off` is what runs outside pods, where that is not shown at all; `unnamed` who waits for a
    name that the selection goes by: it falls when names arrive; all else is `filtered`. A
    usage that is shown as a whole stays the same object.

    While the selection goes by names, an owner in `waiting` that has none yet is left out: it would
    be shown, and vanish with its name. Other owners without a name have an empty one, which only
    `*` matches.
    """
    if selection == Selection():
        return attribution
    usages: dict[tuple[Owner, DeviceId], Usage] = {}
    rest = dict(attribution.unattributed)
    for place, usage in attribution.usages.items():
        owner, device_id = place
        reason = reason_of(owner, attribution.devices[device_id], selection, waiting)
        if reason is None:
            kept = _selected(usage, selection.kinds)
            if kept.time_ns:
                usages[place] = kept
            moved = [*_calls(usage, without=kept)]
        else:
            moved = [*_calls(usage)]
        if moved:
            key = (device_id, reason or Reason.FILTERED)
            rest[key] = _sum([*moved, *([rest[key]] if key in rest else [])])
    return replace(attribution, usages=usages, unattributed=rest)


def leave_out_in_flight(
    found: Mapping[Place, Mapping[Kind, InFlight]],
    devices: Mapping[DeviceId, KnownDevice],
    selection: Selection,
    waiting: Set[Owner] = frozenset(),
) -> Mapping[Place, Mapping[Kind, InFlight]]:
    """The same of calls in flight, which are in no sum yet."""
    if selection == Selection():
        return found
    return {
        (owner, device_id): kept
        for (owner, device_id), calls in found.items()
        if reason_of(owner, devices[device_id], selection, waiting) is None
        if (kept := {kind: each for kind, each in calls.items() if _takes(selection.kinds, kind)})
    }


def reason_of(
    owner: Owner,
    device: KnownDevice,
    selection: Selection,
    waiting: Set[Owner] = frozenset(),
) -> Reason | None:
    """Why an owner has no series on a device, whatever the kind; None if it has one."""
    outside = owner.pod_uid is None and owner.pod is None
    if outside and not selection.host_on:
        return Reason.HOST_OFF
    unnamed = owner.namespace is None or owner.pod is None
    # Apart from the rest, which never falls.
    if selection.by_name and unnamed and owner in waiting:
        return Reason.UNNAMED
    if (
        not _takes(selection.devices, address_of(device.device_id), device.driver)
        or (outside and not _takes(selection.host, owner.cgroup or owner.container_id))
        or (not outside and not _takes(selection.namespaces, owner.namespace))
        or (not outside and not _takes(selection.pods, owner.pod))
    ):
        return Reason.FILTERED
    return None


def _selected(usage: Usage, kinds: Patterns) -> Usage:
    # Every return has its time, so these are all the kinds that were called.
    if all(_takes(kinds, kind) for kind in usage.time_ns):
        return usage
    return Usage(
        calls={key: tally for key, tally in usage.calls.items() if _takes(kinds, key[0])},
        time_ns={kind: tally for kind, tally in usage.time_ns.items() if _takes(kinds, kind)},
        interrupted={
            kind: tally for kind, tally in usage.interrupted.items() if _takes(kinds, kind)
        },
    )


def _calls(usage: Usage, *, without: Usage | None = None) -> Iterable[Tally]:
    if usage is without:
        return
    for key, tally in usage.calls.items():
        if without is None or key not in without.calls:
            yield tally
    for kind, tally in usage.interrupted.items():
        if without is None or kind not in without.interrupted:
            yield tally


def _sum(tallies: list[Tally]) -> Tally:
    return Tally(
        sum(tally.value for tally in tallies), min(tally.first_boot_ns for tally in tallies)
    )


def _takes(patterns: Patterns, *names: str | None) -> bool:
    """Whether one of the names is included and none excluded; an unknown name is empty."""
    if patterns == Patterns():
        return True
    includes, excludes = _matcher(patterns.include), _matcher(patterns.exclude)
    known = [name or "" for name in names]
    return any(map(includes, known)) and not any(map(excludes, known))


@cache
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], object]:
    """Of the few that a configuration has. No pattern matches nothing."""
    return re.compile("|".join(map(translate, patterns)) or r"(?!)").match
