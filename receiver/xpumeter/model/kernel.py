# SPDX-License-Identifier: Apache-2.0
"""What the kernel says: running totals since attach, and names."""

from dataclasses import dataclass
from typing import NamedTuple, NewType

CgroupId = NewType("CgroupId", int)
"""Inode number of a cgroup's directory: unique within one boot and its hierarchy."""


Incarnation = NewType("Incarnation", int)
"""One device from plug to unplug: a number of ours, never used twice while attached. 0: unknown."""


class RowKey(NamedTuple):
    """Which row of the kernel's map, as Row has it."""

    cgroup_id: CgroupId
    device: Incarnation
    nr: int
    error: int


class Row(NamedTuple):
    """How often one cgroup made one call with one result, and how long it took in all.

    Running totals since attach, never differences: the kernel adds, we only read.

    Attributes:
        cgroup_id: Caller's cgroup when it entered the driver; that of its tenant, its pod as a
            whole, for what is beyond the tenant's budget.
        device: Device that the call went to.
        nr: Call number: 0 to 255, NR_FOREIGN or NR_OVERFLOW.
        error: 0, the errno, one of RESTARTS, or ERROR_UNSEEN.
        calls: Returns with this result.
        time_ns: From entry to return, added up; CLOCK_MONOTONIC.
        first_boot_ns: When the first of them entered; CLOCK_BOOTTIME.
        offered: Nobody adds to it any more, and `Pins.retire` will take it out of the kernel.
    """

    cgroup_id: CgroupId
    device: Incarnation
    nr: int
    error: int
    calls: int
    time_ns: int
    first_boot_ns: int
    offered: bool = False


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that has entered the driver and has not returned: one thread is in one at most.

    `start_ns` is CLOCK_MONOTONIC, `tid` the thread's number in the first pid namespace. `cgroup_id`
    is whose row it will be in.
    """

    cgroup_id: CgroupId
    device: Incarnation
    nr: int
    start_ns: int
    tid: int


@dataclass(frozen=True, slots=True)
class DeviceTotal:
    """Every return of one device, counted apart from the rows.

    `returns` holds all; `refused` of them found no room for a row, `lapsed` of them came after the
    lease ran out.
    """

    device: Incarnation
    returns: int
    refused: int
    lapsed: int


@dataclass(frozen=True, slots=True)
class Losses:
    """What the programs could not do since attach; no count is lost by any of it."""

    events: int = 0
    threads: int = 0
    cgroups: int = 0
    devices: int = 0
    entries: int = 0
    returns: int = 0
    empty_slots: int = 0
    tenant_rows: int = 0
    tenant_cgroups: int = 0


@dataclass(frozen=True, slots=True)
class CgroupName:
    """One cgroup as the kernel stored it. At the root `name` is empty and `parent` 0."""

    cgroup_id: CgroupId
    parent: CgroupId
    name: str
    dead: bool


@dataclass(frozen=True, slots=True)
class KernelDevice:
    """A device as the kernel knows it, from its first call on.

    `major` and `minor` are of the first node used; `driver` is the DRM name, `name` the parent
    device's own (PCI address or platform name).
    """

    incarnation: Incarnation
    major: int
    minor: int
    driver: str
    name: str


@dataclass(frozen=True, slots=True)
class CallEvent:
    """A row was opened: the ring's only message."""

    boot_ns: int
    cgroup_id: CgroupId
    device: Incarnation
    tgid: int
    cmd: int
    error: int


@dataclass(frozen=True, slots=True)
class Reading:
    """One read of the kernel: rows between two reads of the totals, so that they can be checked.

    `open` was read before all of it: a call may be there and in its row by now, or in neither.
    """

    totals_before: tuple[DeviceTotal, ...]
    rows: tuple[Row, ...]
    totals: tuple[DeviceTotal, ...]
    losses: Losses
    open: tuple[OpenCall, ...] = ()
