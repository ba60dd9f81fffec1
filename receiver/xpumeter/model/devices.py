# SPDX-License-Identifier: Apache-2.0
"""What was called, and where it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NewType

from xpumeter.model.calls import HardwareType, Kind

DeviceId = NewType("DeviceId", str)
"""Address of a device: PCI address (`0000:03:00.0`), or platform name off the PCI bus. Where
another driver had the address before, the driver's name follows: `0000:03:00.0 xe`."""


def address_of(device_id: DeviceId) -> str:
    """The address alone, which becomes `hw.id`. No name in sysfs has a blank in it."""
    return device_id.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator as sysfs shows it.

    Attributes:
        device_id: PCI address, or platform name.
        nodes: (major, minor) of each of its nodes.
        node_names: Paths below /dev, in the same order: `dri/card0`.
        sysfs_driver: `DRIVER=` of its uevent; not the DRM name for all drivers.
        pci_id: `8086:e20b`, vendor and device; None off the PCI bus.
        vendor, model: Names; None when unknown. Off the PCI bus what the device says of itself:
            USB's strings, or the device tree's `compatible`.
        numa_node: None when the host has no such notion (-1 in sysfs).
        bus: Subsystem of the device in sysfs: `pci`, `platform`, `usb`.
        path: What is between processor and device on PCI, both ends included: the host bridge
            (`pci0000:00`), bridges, the function. Empty off the PCI bus.
        part_of: Address of the PCI function that it is a part of: the physical function of a
            virtual one, the card of a partition. None for a device of its own.
    """

    device_id: DeviceId
    nodes: tuple[tuple[int, int], ...]
    node_names: tuple[str, ...]
    sysfs_driver: str | None
    pci_id: str | None
    vendor: str | None
    model: str | None
    numa_node: int | None
    bus: str | None = None
    path: tuple[str, ...] = ()
    part_of: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A PCI Express link as it is now, and at its best. None is what sysfs does not know.

    Speeds are in GT/s per lane. Devices slow their link down while they are idle.
    """

    speed_gt_s: float | None
    width: int | None
    max_speed_gt_s: float | None
    max_width: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device is in its host. What sysfs does not tell is None, or empty.

    Attributes:
        cpus: Processors next to it, `0-31,64-95`.
        socket: Physical package of the first of these.
        links: The link above each step of the device's path that has one, by address.
        hive: Number of the xGMI hive; devices of one hive are linked to each other.
        virtual_functions: (enabled, possible); None if it is no physical function.
    """

    cpus: str | None = None
    socket: int | None = None
    links: Mapping[str, Link] = field(default_factory=dict)
    hive: str | None = None
    virtual_functions: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """A device with all that is known of it: what a Resource and the table of calls need.

    `driver` is the DRM name, the driver table's name where there is one; empty before the first
    call of a driver without a table. `kinds` maps call numbers to kinds, and a number that is not
    in it is `other`. `hw_type` is None for a driver without a table. `node_names` are of the last
    time that sysfs showed it (`dri/card0`), `switch` is the address of the PCI switch it is behind.
    `gone`: sysfs does not show it any more.
    """

    device_id: DeviceId
    driver: str
    hw_type: HardwareType | None
    vendor: str | None
    model: str | None
    pci_id: str | None
    numa_node: int | None
    kinds: Mapping[int, Kind] = field(hash=False, compare=False)
    node_names: tuple[str, ...] = ()
    part_of: str | None = None
    switch: str | None = None
    gone: bool = False
