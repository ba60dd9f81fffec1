# SPDX-License-Identifier: Apache-2.0
"""Adds rows up by caller and device, and again only where one has changed.

Most rows are the same from period to period. What comes out for them is the same object each time,
so that whoever takes it needs only to compare identities.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from xpumeter.enrich.past import result_of, sum_of
from xpumeter.model.calls import RESTARTS, Kind
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.kernel import CgroupId, Incarnation, Row
from xpumeter.model.owners import Owner
from xpumeter.model.past import Result, Sum, Sums
from xpumeter.model.series import Tally, Usage

_K = TypeVar("_K")
_NO_KINDS: Mapping[int, Kind] = {}

Place = tuple[CgroupId, Incarnation]

Kinds = Mapping[Incarnation, Mapping[int, Kind]]
"""Call number to kind, by device."""


class Places:
    """What the last period came to. Its size is that of what went in."""

    def __init__(self) -> None:
        self._rows: Sequence[Row] = ()
        self._kinds: Kinds = {}
        self._groups: dict[Place, list[int]] = {}
        self._sums: dict[Place, Sums] = {}
        self._usages: dict[tuple[Owner, DeviceId], tuple[Sequence[Sums], Usage]] = {}

    def sums(
        self, rows: Sequence[Row], devices: Mapping[Incarnation, KnownDevice]
    ) -> Mapping[Place, Sums]:
        """What each caller did on each device."""
        kinds = {incarnation: device.kinds for incarnation, device in devices.items()}
        changed = self._changed(rows) if kinds == self._kinds else None
        if changed is None:
            self._group(rows, kinds)
        else:
            for place in changed:
                group = [rows[each] for each in self._groups[place]]
                self._sums[place] = _add_up(group, kinds.get(place[1], _NO_KINDS))
        self._rows, self._kinds = rows, kinds
        return self._sums

    def _changed(self, rows: Sequence[Row]) -> set[Place] | None:
        """Whose rows changed; None if rows came or went, or are in another order.

        The kernel shows its rows in the order in which they lie, so each has its place in the
        reading until one comes or goes. Those that did not change are the same objects.
        """
        if len(rows) != len(self._rows):
            return None
        changed = [pair for pair in zip(rows, self._rows, strict=True) if pair[0] is not pair[1]]
        if any(row[:4] != was[:4] for row, was in changed):
            return None
        return {(row.cgroup_id, row.device) for row, _ in changed}

    def _group(self, rows: Sequence[Row], kinds: Kinds) -> None:
        groups: dict[Place, list[int]] = {}
        for number, row in enumerate(rows):
            groups.setdefault((row.cgroup_id, row.device), []).append(number)
        sums: dict[Place, Sums] = {}
        for place, numbers in groups.items():
            group = [rows[each] for each in numbers]
            before = [self._rows[each] for each in self._groups.get(place, ())]
            is_same = group == before and kinds == self._kinds
            sums[place] = (
                self._sums[place] if is_same else _add_up(group, kinds.get(place[1], _NO_KINDS))
            )
        self._groups, self._sums = groups, sums

    def usages(
        self, parts: Mapping[tuple[Owner, DeviceId], list[Sums]]
    ) -> dict[tuple[Owner, DeviceId], Usage]:
        """Parts of one owner on one device, added up."""
        last, self._usages = self._usages, {}
        usages: dict[tuple[Owner, DeviceId], Usage] = {}
        for key, sums in parts.items():
            before = last.get(key)
            if before is None or before[0] != sums:
                before = (sums, _usage(sums))
            self._usages[key] = before
            usages[key] = before[1]
        return usages


def _add_up(rows: Sequence[Row], kinds: Mapping[int, Kind]) -> Sums:
    """Of one caller on one device."""
    sums: dict[Result, Sum] = {}
    for row in rows:
        result = result_of(row, kinds)
        so_far = sums.get(result)
        sums[result] = sum_of(row) if so_far is None else so_far.plus(sum_of(row))
    return sums


def _usage(parts: Iterable[Sums]) -> Usage:
    calls: dict[Result, Tally] = {}
    time_ns: dict[Kind, Tally] = {}
    interrupted: dict[Kind, Tally] = {}
    for part in parts:
        for result, (count, time, first) in part.items():
            kind, error = result
            _add(time_ns, kind, time, first)
            if error in RESTARTS:
                _add(interrupted, kind, count, first)
            else:
                _add(calls, result, count, first)
    return Usage(calls, time_ns, interrupted)


def _add(tallies: dict[_K, Tally], key: _K, value: int, first_boot_ns: int) -> None:
    so_far = tallies.get(key)
    if so_far is None:
        tallies[key] = Tally(value, first_boot_ns)
    else:
        tallies[key] = Tally(so_far[0] + value, min(so_far[1], first_boot_ns))
