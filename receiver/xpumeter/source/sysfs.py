# SPDX-License-Identifier: Apache-2.0
"""Devices as sysfs shows them. No device node is ever opened."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xpumeter.model.devices import Device, DeviceId
from xpumeter.source import partitions
from xpumeter.source import pci_ids as names_of
from xpumeter.source.attributes import Attributes

SYSFS = Path("/sys")

# Class, its nodes (there are connectors and a file `version` beside them), their folder below /dev.
_CLASSES = (
    ("drm", re.compile(r"(?:card|renderD)[0-9]+"), "dri"),
    ("accel", re.compile(r"accel[0-9]+"), "accel"),
)
_NODE_NUMBER = re.compile(r"([0-9]+):([0-9]+)")
_PCI_NUMBER = re.compile(r"0x([0-9a-f]{4})")
# Domains have four digits, or more where the firmware or a VMD controller made them.
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_FUNCTION = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True, slots=True)
class _Node:
    number: tuple[int, int]
    name: str
    parent: Path


def look(root: Path = SYSFS) -> frozenset[tuple[str, int]]:
    """What tells whether devices came or went: it differs from the last time if any did.

    One listing of each class: the entry of a device that went and came again has another inode,
    whatever its name. Some 20 us, so it may be done at each look at the kernel.
    """
    seen = set()
    for name, _, _ in _CLASSES:
        try:
            with os.scandir(root / "class" / name) as entries:
                seen |= {(entry.name, entry.inode()) for entry in entries}
        except OSError:
            continue
        seen.add((name, 0))
    return frozenset(seen)


def read_devices(
    root: Path = SYSFS,
    *,
    pci_ids: Sequence[Path] = names_of.FILES,
    bad: list[Path] | None = None,
) -> tuple[Device, ...]:
    """Every device that has a node in the classes drm and accel, sorted by its id.

    Never raises. What cannot be read or makes no sense is left out, the node or the attribute, and
    its path is added to `bad`. What a device does not have, a NUMA node for one, is None and not
    bad. Names are those of the first file of `pci_ids` that is there.
    """
    bad = [] if bad is None else bad
    by_parent: dict[Path, list[_Node]] = {}
    for node in _nodes(root, bad):
        by_parent.setdefault(node.parent, []).append(node)
    devices = [_device(parent, nodes, bad) for parent, nodes in by_parent.items()]
    if any(partitions.is_partition(device) for device in devices):
        cards = partitions.cards(root)
        devices = [partitions.with_card(device, cards) for device in devices]

    names = names_of.read_names(
        [device.pci_id for device in devices if device.pci_id], files=pci_ids, bad=bad
    )
    named = [_with_names(device, names) for device in devices]
    return tuple(sorted(named, key=lambda device: device.device_id))


def function_folders(root: Path, path: Sequence[str]) -> Iterator[tuple[str, Attributes]]:
    """Each step of a device's path below its host bridge, with its folder; no link is followed."""
    folder = root / "devices"
    for step in path:
        folder = folder / step
        if _FUNCTION.fullmatch(step):
            yield step, Attributes(folder)


def _nodes(root: Path, bad: list[Path]) -> Iterator[_Node]:
    for class_name, shape, folder in _CLASSES:
        place = root / "class" / class_name
        try:
            entries = sorted(place.iterdir())
        except FileNotFoundError:
            continue
        except OSError:
            bad.append(place)
            continue
        for entry in entries:
            if not shape.fullmatch(entry.name):
                continue
            # Whatever is wrong with a node, it is left out and counted once.
            number = _NODE_NUMBER.fullmatch(Attributes(entry).text("dev") or "")
            try:
                parent = (entry / "device").resolve(strict=True)
            except (OSError, RuntimeError):  # RuntimeError: links in a circle
                parent = None
            if number and parent:
                yield _Node((int(number[1]), int(number[2])), f"{folder}/{entry.name}", parent)
            else:
                bad.append(entry)


def _device(parent: Path, nodes: Sequence[_Node], bad: list[Path]) -> Device:
    nodes = sorted(nodes, key=lambda node: node.number)
    own = Attributes(parent, bad)
    bus = own.link("subsystem")
    # A virtio device is numbered in the order of probing; what holds it keeps its name.
    hardware = Attributes(parent.parent, bad) if bus == "virtio" else own
    bus = hardware.link("subsystem") if bus == "virtio" else bus
    uevent = own.properties("uevent")
    device = Device(
        device_id=DeviceId(hardware.folder.name),
        nodes=tuple(node.number for node in nodes),
        node_names=tuple(node.name for node in nodes),
        sysfs_driver=uevent.get("DRIVER") or own.link("driver"),
        pci_id=None,
        vendor=None,
        model=uevent.get("OF_COMPATIBLE_0"),
        numa_node=_numa_node(hardware),
        bus=bus,
        path=_pci_path(hardware.folder),
    )
    if bus == "pci":
        physical = hardware.link("physfn")
        return replace(device, pci_id=_pci_id(hardware), part_of=physical)
    if bus == "auxiliary" and device.path:
        function = Attributes(hardware.folder.parent, bad)
        return replace(
            device,
            pci_id=_pci_id(function),
            part_of=device.path[-1],
            numa_node=_numa_node(function),
        )
    if bus == "usb":  # an interface; what is above it has the names
        usb = Attributes(hardware.folder.parent, bad)
        return replace(
            device,
            vendor=usb.text("manufacturer"),
            model=usb.text("product"),
            numa_node=None,
            path=(),  # its controller's
        )
    return device


def _pci_path(folder: Path) -> tuple[str, ...]:
    return tuple(
        step for step in folder.parts if _FUNCTION.fullmatch(step) or _HOST_BRIDGE.fullmatch(step)
    )


def _pci_id(function: Attributes) -> str | None:
    numbers = []
    for name in ("vendor", "device"):
        text = function.text(name)
        if text is None:
            return None
        number = _PCI_NUMBER.fullmatch(text)
        if number is None:
            function.complain(name)
            return None
        numbers.append(number[1])
    return ":".join(numbers)


def _numa_node(device: Attributes) -> int | None:
    number = device.integer("numa_node")
    return None if number is None or number < 0 else number


def _with_names(device: Device, names: Mapping[str, str]) -> Device:
    if not device.pci_id:
        return device
    return replace(device, vendor=names.get(device.pci_id[:4]), model=names.get(device.pci_id))
