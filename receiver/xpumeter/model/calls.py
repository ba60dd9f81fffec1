# SPDX-License-Identifier: Apache-2.0
"""What a call is for, and the numbers that say so."""

from collections.abc import Mapping
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
