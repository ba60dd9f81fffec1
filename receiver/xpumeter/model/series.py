# SPDX-License-Identifier: Apache-2.0
"""What enrichment makes of rows, and what is exported."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from xpumeter.model.calls import Kind, Reason
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.owners import Owner


class Tally(NamedTuple):
    """A running total and when it began (CLOCK_BOOTTIME of the first call's entry)."""

    value: int
    first_boot_ns: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What one owner asked of one device. `calls` by (kind, error), the others by kind.

    `error` is 0, an errno or ERROR_UNSEEN, never a restart: restarts are in `interrupted`.
    """

    calls: Mapping[tuple[Kind, int], Tally]
    time_ns: Mapping[Kind, Tally]
    interrupted: Mapping[Kind, Tally]


@dataclass(frozen=True, slots=True)
class Attribution:
    """Every call in exactly one place.

    Sum of `usages` (calls and interrupted) + sum of `unattributed` = what the kernel counted.
    `ended` are the owners of whom every cgroup is gone. `devices` are those that were seen, by id.
    A device that nobody knows stands in `unattributed` as `None`.
    """

    usages: Mapping[tuple[Owner, DeviceId], Usage]
    unattributed: Mapping[tuple[DeviceId | None, Reason], Tally]
    ended: frozenset[Owner]
    devices: Mapping[DeviceId, KnownDevice]


@dataclass(frozen=True, slots=True)
class InFlight:
    """Calls of one kind that did not return yet, one at least; `oldest_ns` is the age of one."""

    calls: int
    oldest_ns: int


class Point(NamedTuple):
    """One cumulative value and when it began (Unix time)."""

    value: int
    start_unix_ns: int


@dataclass(frozen=True, slots=True)
class Series:
    """All series of one Resource: one owner on one device. Keys as in Usage.

    `in_flight` has the kinds of which a call did not return yet, and no others.
    """

    owner: Owner
    device: KnownDevice
    calls: Mapping[tuple[Kind, int], Point]
    time_ns: Mapping[Kind, Point]
    interrupted: Mapping[Kind, Point]
    ended: bool
    in_flight: Mapping[Kind, InFlight] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is exported: the state of every series at one moment, on two clocks.

    `boot_ns` (CLOCK_BOOTTIME) goes on evenly, whatever is done to the other. `since_unix_ns` is
    when counting began: calls in flight are those that entered since then and did not return.
    """

    unix_ns: int
    boot_ns: int
    series: tuple[Series, ...]
    devices: tuple[KnownDevice, ...]
    unattributed: Mapping[tuple[DeviceId | None, Reason], Point]
    since_unix_ns: int = 0
