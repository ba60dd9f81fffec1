# SPDX-License-Identifier: Apache-2.0
"""Every noun, and no verb: what the stages hand to each other, frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

CgroupId = NewType("CgroupId", int)
"""Inode number of a cgroup v2 directory: unique within one boot."""

Incarnation = NewType("Incarnation", int)
"""One device from plug to unplug: a number of ours, never used twice while attached. 0: unknown."""

DeviceId = NewType("DeviceId", str)
"""PCI address (`0000:03:00.0`), or the platform name of a device that is on no PCI bus."""

NR_FOREIGN = 0x100
"""Call number of an ioctl that is not of DRM's type."""

ERROR_UNSEEN = 0xFFFF
"""Error of a call whose return nobody saw."""

RESTARTS = frozenset({512, 513, 514, 516})
"""-ERESTARTSYS and its kin (include/linux/errno.h): the call ended in a signal, not in a result."""


class Kind(StrEnum):
    """What a call is for."""

    SUBMIT = "submit"
    ALLOC = "alloc"
    FREE = "free"
    WAIT = "wait"
    OTHER = "other"


class Reason(StrEnum):
    """Why a call has no series. A closed set."""

    UNKNOWN_CGROUP = "unknown_cgroup"
    UNKNOWN_DEVICE = "unknown_device"
    CGROUP_V1 = "cgroup_v1"
    ROWS_FULL = "rows_full"
    LAPSED = "lapsed"
    FILTERED = "filtered"
    HOST_OFF = "host_off"


class HardwareType(StrEnum):
    """What a device is. `npu` is a value of ours: the enum of `hw.type` is open."""

    GPU = "gpu"
    NPU = "npu"


@dataclass(frozen=True, slots=True)
class Call:
    """One row of a driver table: `nr` as the kernel's rows hold it, _IOC_NR of the macro `name`.

    `header` is the uapi header that defines the macro, below /usr/include.
    """

    name: str
    nr: int
    kind: Kind
    header: str


@dataclass(frozen=True, slots=True)
class DriverTable:
    """Which call numbers of a driver are which kind; core calls of DRM included.

    Attributes:
        driver: DRM name.
        hw_type: What the driver's devices are; becomes `hw.type`. None in the table of core calls.
        vendor: Who makes them, where one driver serves one vendor.
        sysfs_drivers: Values of `DRIVER=` in sysfs that stand for it before the first call.
        calls: All calls with a kind; a number that is not here is `other`.
        not_observable: Kind -> one sentence on what no call shows.
        tested: On what it was seen to work, as people reported it.
        source: The file.
    """

    driver: str
    hw_type: HardwareType | None
    vendor: str | None
    sysfs_drivers: tuple[str, ...]
    calls: tuple[Call, ...]
    not_observable: Mapping[Kind, str]
    tested: tuple[Mapping[str, str], ...]
    source: str

    @property
    def kinds(self) -> Mapping[int, Kind]:
        """Call number to kind."""
        return {call.nr: call.kind for call in self.calls}


# --- what the kernel says ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """How often one cgroup made one call with one result, and how long it took in all.

    Running totals since attach, never differences: the kernel adds, we only read.

    Attributes:
        cgroup_id: Caller's cgroup when it entered the driver.
        device: Device that the call went to.
        nr: Call number: 0 to 255, or NR_FOREIGN.
        error: 0, the errno, one of RESTARTS, or ERROR_UNSEEN.
        calls: Returns with this result.
        time_ns: From entry to return, added up; CLOCK_MONOTONIC.
        first_boot_ns: When the first of them entered; CLOCK_BOOTTIME.
    """

    cgroup_id: CgroupId
    device: Incarnation
    nr: int
    error: int
    calls: int
    time_ns: int
    first_boot_ns: int


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
    """One read of the kernel: rows between two reads of the totals, so that they can be checked."""

    totals_before: tuple[DeviceTotal, ...]
    rows: tuple[Row, ...]
    totals: tuple[DeviceTotal, ...]
    losses: Losses


# --- who and what --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identity:
    """What the names of a cgroup and its parents say, without asking anybody.

    Attributes:
        path: The cgroup's path from the root, `/` first.
        pod_uid: Of the outermost pod in the path.
        container_id: 64 hex digits, of the outermost container.
        unit: The systemd unit in the path of a service of the host; None in pods and containers.
    """

    path: str
    pod_uid: str | None = None
    container_id: str | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """What the container runtime says of one container or pod sandbox.

    `sandbox` is True for a pod's sandbox, which has no container name. What the runtime left out
    is None, never empty.
    """

    container_id: str
    sandbox: bool
    name: str | None
    pod_name: str | None
    pod_namespace: str | None
    pod_uid: str | None


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose calls these are: a container, a pod as a whole, or a service of the host.

    What is unknown is None. Two owners are one if all of this is equal: an owner becomes another
    one when its names arrive.

    Attributes:
        namespace, pod, pod_uid, container: As in Kubernetes.
        container_id: 64 hex digits.
        cgroup: Path of the cgroup; only outside pods and containers.
    """

    namespace: str | None = None
    pod: str | None = None
    pod_uid: str | None = None
    container: str | None = None
    container_id: str | None = None
    cgroup: str | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator as sysfs shows it.

    Attributes:
        device_id: PCI address, or platform name.
        nodes: (major, minor) of each of its nodes.
        node_names: Paths below /dev, in the same order: `dri/card0`.
        sysfs_driver: `DRIVER=` of its uevent; not the DRM name for all drivers.
        pci_id: `8086:e20b`, vendor and device; None off the PCI bus.
        vendor, model: Names; None when unknown.
        numa_node: None when the host has no such notion (-1 in sysfs).
    """

    device_id: DeviceId
    nodes: tuple[tuple[int, int], ...]
    node_names: tuple[str, ...]
    sysfs_driver: str | None
    pci_id: str | None
    vendor: str | None
    model: str | None
    numa_node: int | None


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """A device with all that is known of it: what a Resource and the table of calls need.

    `driver` is the driver table's name (the DRM name); `kinds` maps call numbers to kinds, and a
    number that is not in it is `other`. `hw_type` is None for a driver without a table.
    """

    device_id: DeviceId
    driver: str
    hw_type: HardwareType | None
    vendor: str | None
    model: str | None
    pci_id: str | None
    numa_node: int | None
    kinds: Mapping[int, Kind] = field(hash=False, compare=False)


# --- what enrichment makes of them ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tally:
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
class Point:
    """One cumulative value and when it began (Unix time)."""

    value: int
    start_unix_ns: int


@dataclass(frozen=True, slots=True)
class Series:
    """All series of one Resource: one owner on one device. Keys as in Usage."""

    owner: Owner
    device: KnownDevice
    calls: Mapping[tuple[Kind, int], Point]
    time_ns: Mapping[Kind, Point]
    interrupted: Mapping[Kind, Point]
    ended: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is exported: the state of every series at one moment, on two clocks.

    `boot_ns` (CLOCK_BOOTTIME) goes on evenly, whatever is done to the other.
    """

    unix_ns: int
    boot_ns: int
    series: tuple[Series, ...]
    devices: tuple[KnownDevice, ...]
    unattributed: Mapping[tuple[DeviceId | None, Reason], Point]


@dataclass(frozen=True, slots=True)
class AgentStats:
    """The agent about itself, for its own metrics. Running totals, but for rows and unresolved."""

    rows: int = 0
    row_limit: int = 0
    refused: int = 0
    losses: Losses = field(default_factory=Losses)
    missing: int = 0
    """Calls that the kernel counted and no row holds: 0, or a fault."""
    runtime_calls: int = 0
    runtime_errors: int = 0
    bad_records: int = 0
    unresolved: int = 0
    exports: int = 0
    export_failures: int = 0
    hook: str = ""
