# SPDX-License-Identifier: Apache-2.0
"""What `xpumeter devices` shows: the accelerators of a host, where they are, what can be seen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict

from xpumeter.drivers import Tables
from xpumeter.enrich import topology
from xpumeter.enrich.devices import know_all
from xpumeter.errors import HostError
from xpumeter.model.devices import Device, DeviceId, Link, Place, address_of
from xpumeter.model.kernel import KernelDevice
from xpumeter.source import sysfs
from xpumeter.source.topology import read_places

NVIDIA = "10de"
"""PCI vendor whose links between cards (NVLink) no file of the kernel tells of."""


class Where(TypedDict):
    """Where a device is. `link` is the slowest between it and its root port, as it is now."""

    path: list[str]
    switch: str | None
    cpus: str | None
    socket: int | None
    link: dict[str, float | int | None] | None
    links: dict[str, dict[str, float | int | None]]
    distance: dict[str, str]
    same_card: list[str]
    xgmi: list[str]
    virtual_functions: dict[str, int] | None
    not_observable: dict[str, str]


class Entry(TypedDict):
    """One device, as JSON has it; what is unknown is null."""

    id: str
    driver: str | None
    sysfs_driver: str | None
    type: str | None
    bus: str | None
    pci_id: str | None
    vendor: str | None
    model: str | None
    numa_node: int | None
    part_of: str | None
    nodes: list[str]
    observable: list[str]
    not_observable: dict[str, str]
    topology: Where


HEADER = ("DRIVER", "PCI ID", "ADDRESS", "NODES", "VENDOR", "MODEL", "NUMA", "SEEN")
"""Columns of `row`. SEEN: kinds of which a call tells; `core` means DRM's own calls only."""


def entries(sysfs_root: Path, tables: Tables, called: Iterable[KernelDevice] = ()) -> list[Entry]:
    """Every accelerator of the host whose /sys this is. No node is opened, no privilege needed.

    `called` are the devices that the kernel counted calls of: their drivers' DRM names are known.

    Raises:
        HostError: It is no /sys.
    """
    if not (sysfs_root / "class").is_dir():
        raise HostError(f"{sysfs_root} is no /sys: it has no folder `class`")
    devices = sysfs.read_devices(sysfs_root)
    known = know_all(called, devices, tables.by_driver, tables.core.kinds, {}).values()
    drivers = {address_of(each.device_id): each.driver for each in known if not each.gone}
    places = read_places(devices, sysfs_root)
    return [_entry(each, devices, places, tables, drivers) for each in devices]


def notes(found: Sequence[Entry]) -> Sequence[str]:
    """What is missing to see more of these devices, and how to add it: one line for each driver."""
    unknown = [each for each in found if each["driver"] is None]
    drivers = dict.fromkeys(each["sysfs_driver"] for each in unknown if _names_driver(each))
    return [
        *(
            f"{driver}: no driver table: its own calls are counted as `other`; "
            "docs/adding-a-driver.md says how to add one"
            for driver in drivers
        ),
        *(
            f"{each['id']}: sysfs does not name its driver: kinds are known from its first call on"
            for each in unknown
            if not _names_driver(each)
        ),
    ]


def _names_driver(entry: Entry) -> bool:
    # All devices of the faux bus have one driver, which is no driver of theirs (Linux 6.14).
    return entry["sysfs_driver"] not in {None, "faux_driver"}


def _entry(
    device: Device,
    devices: Sequence[Device],
    places: Mapping[DeviceId, Place],
    tables: Tables,
    drivers: Mapping[str, str],
) -> Entry:
    by_kernel = drivers.get(device.device_id)
    table = tables.by_driver.get(by_kernel) if by_kernel else tables.of_sysfs(device.sysfs_driver)
    seen = table or tables.core
    return Entry(
        id=device.device_id,
        driver=table.driver if table else by_kernel,
        sysfs_driver=device.sysfs_driver,
        type=seen.hw_type,
        bus=device.bus,
        pci_id=device.pci_id,
        vendor=(table.vendor if table else None) or device.vendor,
        model=device.model,
        numa_node=device.numa_node,
        part_of=device.part_of,
        nodes=[f"/dev/{name}" for name in device.node_names],
        observable=[kind.value for kind in seen.observable],
        not_observable={kind.value: why for kind, why in seen.not_observable.items()},
        topology=_where(device, devices, places),
    )


def _where(device: Device, devices: Sequence[Device], places: Mapping[DeviceId, Place]) -> Where:
    place = places[device.device_id]
    others = [other for other in devices if other is not device]
    distances = {
        str(other.device_id): distance.value
        for other in others
        if (distance := topology.distance(device, other, places))
    }
    slowest = min(place.links.values(), key=_rate, default=None)
    virtual = place.virtual_functions
    is_nvidia = (device.pci_id or "").startswith(NVIDIA)
    return Where(
        path=list(device.path),
        switch=topology.switch_of(device.path),
        cpus=place.cpus,
        socket=place.socket,
        link=asdict(slowest) if slowest else None,
        links={step: asdict(link) for step, link in place.links.items()},
        distance=distances,
        same_card=[each for each, far in distances.items() if far == topology.Distance.CARD],
        xgmi=[
            other.device_id
            for other in others
            if place.hive and places[other.device_id].hive == place.hive
        ],
        virtual_functions={"enabled": virtual[0], "possible": virtual[1]} if virtual else None,
        not_observable={"NVLink": "no file of the kernel tells of it"} if is_nvidia else {},
    )


def _rate(link: Link) -> float:
    """Of the link at its best: what a device that idles does to it says nothing of the slot."""
    return (link.max_speed_gt_s or 0) * (link.max_width or 0)


def row(entry: Entry) -> Sequence[str]:
    """Cells under HEADER."""
    numa = entry["numa_node"]
    seen = " ".join(entry["observable"])
    return (
        # Before the first call sysfs' own word stands in for a driver without a table.
        entry["driver"] or entry["sysfs_driver"] or "",
        entry["pci_id"] or "",
        entry["id"],
        " ".join(name.removeprefix("/dev/") for name in entry["nodes"]),
        entry["vendor"] or "",
        entry["model"] or "",
        "" if numa is None else str(numa),
        seen if entry["type"] else f"core: {seen}",
    )
