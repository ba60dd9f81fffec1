# SPDX-License-Identifier: Apache-2.0
"""What a call is for, and the numbers that say so."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

NR_FOREIGN = 0x100
"""Call number of an ioctl that is not of DRM's type."""


NR_OVERFLOW = 0x101
"""Call number of all calls beyond a tenant's budget of rows: of any kind."""


ERROR_UNSEEN = 0xFFFF
"""Error of a call whose return nobody saw."""


RESTARTS = frozenset({512, 513, 514, 516})
"""-ERESTARTSYS and its kin (include/linux/errno.h): the call ended in a signal, not in a result."""


ENOTTY = 25
ENOIOCTLCMD = 515
"""Drivers say it to a call that they do not know; vfs_ioctl() makes it ENOTTY."""


class Kind(StrEnum):
    """What a call is for."""

    SUBMIT = "submit"
    ALLOC = "alloc"
    FREE = "free"
    WAIT = "wait"
    OTHER = "other"

    # Enum's own is a Python function, and kinds are keys in each period of each series.
    __hash__ = str.__hash__


class Reason(StrEnum):
    """Why a call has no series. A closed set."""

    UNKNOWN_CGROUP = "unknown_cgroup"
    UNKNOWN_DEVICE = "unknown_device"
    CGROUP_V1 = "cgroup_v1"
    ROWS_FULL = "rows_full"
    LAPSED = "lapsed"
    FILTERED = "filtered"
    UNNAMED = "unnamed"
    HOST_OFF = "host_off"
    UNDELIVERED = "undelivered"


class HardwareType(StrEnum):
    """What a device is. `npu` is a value of ours: the enum of `hw.type` is open."""

    GPU = "gpu"
    NPU = "npu"


@dataclass(frozen=True, slots=True)
class Call:
    """One row of a driver table: `nr` as the kernel's rows hold it, _IOC_NR of the macro `name`.

    `header` is the uapi header that defines the macro, below /usr/include. `core` says that DRM
    itself answers the call, so that it is in the table of every driver.
    """

    name: str
    nr: int
    kind: Kind
    header: str
    core: bool = False


@dataclass(frozen=True, slots=True)
class DriverTable:
    """Which call numbers of a driver are which kind; core calls of DRM included.

    A call of the kind `other` is there to have a name, and to keep its number from being taken for
    something else.

    Attributes:
        driver: DRM name.
        hw_type: What the driver's devices are; becomes `hw.type`. None in the table of core calls.
        vendor: Who makes them, where one driver serves one vendor.
        sysfs_drivers: Values of `DRIVER=` in sysfs that stand for it before the first call.
        calls: All calls with a kind; a number that is not here is `other`.
        not_observable: Kind -> one sentence on what no call shows.
        tested: On what it was seen to work, as people reported it.
        source: The file.
        header: uapi header of the driver's own calls, below /usr/include.
        header_unchecked: Why the numbers are not compared with the header; None where they are.
        since: First Linux that has the driver; None where the table does not say.
        core_kinds: Kinds of DRM's core calls that the driver answers.
    """

    driver: str
    hw_type: HardwareType | None
    vendor: str | None
    sysfs_drivers: tuple[str, ...]
    calls: tuple[Call, ...]
    not_observable: Mapping[Kind, str]
    tested: tuple[Mapping[str, str], ...]
    source: str
    header: str = ""
    header_unchecked: str | None = None
    since: str | None = None
    core_kinds: Set[Kind] = frozenset(Kind)

    @property
    def observable(self) -> tuple[Kind, ...]:
        """Kinds that some call of the driver tells of, maybe not of all: see `not_observable`."""
        told = {call.kind for call in self.calls if not call.core or call.kind in self.core_kinds}
        return tuple(kind for kind in Kind if kind in told and kind is not Kind.OTHER)

    @property
    def kinds(self) -> Mapping[int, Kind]:
        """Call number to kind."""
        return {call.nr: call.kind for call in self.calls}
