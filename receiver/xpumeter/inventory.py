# SPDX-License-Identifier: Apache-2.0
"""What `xpumeter devices` shows: the accelerators of a host, and what can be seen of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from xpumeter.drivers import Tables
from xpumeter.errors import HostError
from xpumeter.model.devices import Device
from xpumeter.source import sysfs


class Entry(TypedDict):
    """One device, as JSON has it; what is unknown is null."""

    id: str
    driver: str | None
    sysfs_driver: str | None
    type: str | None
    pci_id: str | None
    vendor: str | None
    model: str | None
    numa_node: int | None
    nodes: list[str]
    observable: list[str]
    not_observable: dict[str, str]


HEADER = ("DRIVER", "PCI ID", "ADDRESS", "NODES", "VENDOR", "MODEL", "NUMA", "SEEN")
"""Columns of `row`. SEEN: kinds of which a call tells; `core` means DRM's own calls only."""


def entries(sysfs_root: Path, tables: Tables) -> list[Entry]:
    """Every accelerator of the host whose /sys this is. No node is opened, no privilege needed.

    Raises:
        HostError: It is no /sys.
    """
    if not (sysfs_root / "class").is_dir():
        raise HostError(f"{sysfs_root} is no /sys: it has no folder `class`")
    return [_entry(device, tables) for device in sysfs.read_devices(sysfs_root)]


def notes(found: Sequence[Entry]) -> Sequence[str]:
    """What is missing to see more of these devices, and how to add it: one line for each driver."""
    unknown = {each["sysfs_driver"]: each["id"] for each in found if each["driver"] is None}
    return [
        f"{driver}: no driver table: its own calls are counted as `other`; "
        "docs/adding-a-driver.md says how to add one"
        if driver
        else f"{device_id}: sysfs does not name its driver: kinds are known from its first call on"
        for driver, device_id in unknown.items()
    ]


def _entry(device: Device, tables: Tables) -> Entry:
    table = tables.of_sysfs(device.sysfs_driver)
    seen = table or tables.core
    return Entry(
        id=device.device_id,
        driver=table.driver if table else None,
        sysfs_driver=device.sysfs_driver,
        type=seen.hw_type,
        pci_id=device.pci_id,
        vendor=(table.vendor if table else None) or device.vendor,
        model=device.model,
        numa_node=device.numa_node,
        nodes=[f"/dev/{name}" for name in device.node_names],
        observable=[kind.value for kind in seen.observable],
        not_observable={kind.value: why for kind, why in seen.not_observable.items()},
    )


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
        seen if entry["driver"] else f"core: {seen}",
    )
