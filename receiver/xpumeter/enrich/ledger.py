# SPDX-License-Identifier: Apache-2.0
"""The only state that outlives a period: what was exported last, so that nothing steps back."""

from collections.abc import Mapping, Set
from typing import Any, TypeVar

from xpumeter.model.calls import Reason
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.owners import Owner
from xpumeter.model.series import Attribution, Point, Series, Snapshot, Tally, Usage

_K = TypeVar("_K")

_ROOM = 1024
"""Start times that are kept in any case."""


class Ledger:
    """Turns attributions into what is exported.

    It remembers the last snapshot and its start times, so its size is that of what goes in: a
    series that is in no attribution any more is handed out once as ended and forgotten.
    """

    def __init__(self) -> None:
        self._series: dict[tuple[Owner, DeviceId], tuple[Usage, Series]] = {}
        self._unattributed: Mapping[tuple[DeviceId | None, Reason], Point] = {}
        self._starts = _Starts()

    def update(self, attribution: Attribution, *, unix_ns: int, boot_to_unix_ns: int) -> Snapshot:
        """State of every series now, `unix_ns`.

        `boot_to_unix_ns` is what to add to CLOCK_BOOTTIME to get Unix time. A start time is
        converted once and kept, whatever the clock does later; also when an owner gets its names:
        then its unnamed series is not in the snapshot any more, and the named one has the same
        start and the whole value, so that no call is in two series.
        """
        self._starts.convert_with(boot_to_unix_ns)
        last, self._series = self._series, {}
        for key, usage in attribution.usages.items():
            owner, device_id = key
            device = attribution.devices[device_id]
            ended = device.gone or owner in attribution.ended
            so_far, series = last.get(key, (None, None))
            # Most are what they were: the same object (see places.py).
            if (
                series is None
                or so_far is not usage
                or series.device is not device
                or series.ended is not ended
            ):
                series = self._one(owner, device, usage, series, ended=ended)
            self._series[key] = usage, series
        self._unattributed = {
            key: self._rest(self._unattributed.get(key), tally, unix_ns)
            for key, tally in attribution.unattributed.items()
        }
        self._starts.forget_all_but(attribution)
        return Snapshot(
            unix_ns=unix_ns,
            boot_ns=unix_ns - boot_to_unix_ns,
            series=tuple(series for _, series in self._series.values()),
            devices=tuple(attribution.devices.values()),
            unattributed=self._unattributed,
        )

    def forget(self, owners: Set[Owner]) -> None:
        """Their calls are counted elsewhere by now: who comes again begins anew."""
        if owners:
            self._series = {key: one for key, one in self._series.items() if key[0] not in owners}

    def _one(
        self, owner: Owner, device: KnownDevice, usage: Usage, last: Series | None, *, ended: bool
    ) -> Series:
        return Series(
            owner=owner,
            device=device,
            calls=self._points(last.calls if last else {}, usage.calls),
            time_ns=self._points(last.time_ns if last else {}, usage.time_ns),
            interrupted=self._points(last.interrupted if last else {}, usage.interrupted),
            ended=ended,
        )

    def _points(self, last: Mapping[_K, Point], tallies: Mapping[_K, Tally]) -> dict[_K, Point]:
        """Points that never step back, neither in value nor by being absent."""
        points = dict(last)
        for key, tally in tallies.items():
            so_far = points.get(key)
            if so_far is None:
                points[key] = Point(tally.value, self._starts.of(tally))
            elif so_far.value < tally.value:
                start_unix_ns = min(so_far.start_unix_ns, self._starts.of(tally))
                points[key] = Point(tally.value, start_unix_ns)
        return points

    def _rest(self, last: Point | None, tally: Tally, unix_ns: int) -> Point:
        """What is unattributed may get its owner later: then the rest begins again."""
        if last is None:
            return Point(tally.value, self._starts.of(tally))
        if tally.value < last.value:
            return Point(tally.value, unix_ns)
        return last if tally.value == last.value else last._replace(value=tally.value)


class _Starts:
    """First calls' boot times as Unix times: each converted once, while a tally begins with it."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._room = _ROOM
        self._boot_to_unix_ns = 0

    def convert_with(self, boot_to_unix_ns: int) -> None:
        self._boot_to_unix_ns = boot_to_unix_ns

    def of(self, tally: Tally) -> int:
        first = tally.first_boot_ns
        return self._known.setdefault(first, first + self._boot_to_unix_ns)

    def forget_all_but(self, attribution: Attribution) -> None:
        # Looking costs more than keeping, so not each time.
        if len(self._known) <= self._room:
            return
        parts: list[Mapping[Any, Tally]] = [attribution.unattributed]
        for usage in attribution.usages.values():
            parts += usage.calls, usage.time_ns, usage.interrupted
        firsts = {tally.first_boot_ns for part in parts for tally in part.values()}
        self._known = {first: self._known[first] for first in firsts & self._known.keys()}
        self._room = max(_ROOM, 2 * len(self._known))
