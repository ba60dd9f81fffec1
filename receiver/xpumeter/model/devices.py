# SPDX-License-Identifier: Apache-2.0
"""What was called."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NewType

from xpumeter.model.calls import HardwareType, Kind

DeviceId = NewType("DeviceId", str)
"""PCI address (`0000:03:00.0`), or the platform name of a device that is on no PCI bus."""


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
