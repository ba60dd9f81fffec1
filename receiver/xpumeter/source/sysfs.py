# SPDX-License-Identifier: Apache-2.0
"""Devices as sysfs shows them. No device node is ever opened."""

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from xpumeter.model.devices import Device, DeviceId

PCI_IDS = (Path("/usr/share/misc/pci.ids"), Path("/usr/share/hwdata/pci.ids"))
"""Where distributions keep the names of PCI vendors and devices."""

# Class, its nodes (there are connectors and a file `version` beside them), their folder below /dev.
_CLASSES = (
    ("drm", re.compile(r"(?:card|renderD)[0-9]+"), "dri"),
    ("accel", re.compile(r"accel[0-9]+"), "accel"),
)
_NODE_NUMBER = re.compile(r"([0-9]+):([0-9]+)")
_PCI_NUMBER = re.compile(r"0x([0-9a-f]{4})")
_PCI_NAME = re.compile(r"(?P<nested>\t?)(?P<number>[0-9a-f]{4})\s+(?P<name>\S.*)")


@dataclass(frozen=True, slots=True)
class _Node:
    number: tuple[int, int]
    name: str
    parent: Path


def read_devices(
    root: Path = Path("/sys"),
    *,
    pci_ids: Sequence[Path] = PCI_IDS,
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

    names = _pci_names({device.pci_id for device in devices if device.pci_id}, pci_ids, bad)
    named = [
        replace(device, vendor=names.get(device.pci_id[:4]), model=names.get(device.pci_id))
        if device.pci_id
        else device
        for device in devices
    ]
    return tuple(sorted(named, key=lambda device: device.device_id))


def _nodes(root: Path, bad: list[Path]) -> Iterator[_Node]:
    for class_name, shape, folder in _CLASSES:
        try:
            entries = sorted((root / "class" / class_name).iterdir())
        except FileNotFoundError:
            continue
        except OSError:
            bad.append(root / "class" / class_name)
            continue
        for entry in entries:
            if not shape.fullmatch(entry.name):
                continue
            # Whatever is wrong with a node, it is left out and counted once.
            number = _NODE_NUMBER.fullmatch(_read(entry / "dev", []) or "")
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
    # A virtio device is numbered in the order of probing; what holds it keeps its name.
    hardware = parent.parent if _link_name(parent / "subsystem") == "virtio" else parent
    return Device(
        device_id=DeviceId(hardware.name),
        nodes=tuple(node.number for node in nodes),
        node_names=tuple(node.name for node in nodes),
        sysfs_driver=_driver(parent, bad),
        pci_id=_pci_id(hardware, bad) if _link_name(hardware / "subsystem") == "pci" else None,
        vendor=None,
        model=None,
        numa_node=_numa_node(hardware, bad),
    )


def _driver(device: Path, bad: list[Path]) -> str | None:
    for line in (_read(device / "uevent", bad) or "").splitlines():
        key, _, value = line.partition("=")
        if key == "DRIVER" and value:
            return value
    return _link_name(device / "driver")


def _pci_id(device: Path, bad: list[Path]) -> str | None:
    numbers = []
    for file in (device / "vendor", device / "device"):
        text = _read(file, bad)
        if text is None:
            return None
        number = _PCI_NUMBER.fullmatch(text)
        if number is None:
            bad.append(file)
            return None
        numbers.append(number[1])
    return ":".join(numbers)


def _numa_node(device: Path, bad: list[Path]) -> int | None:
    text = _read(device / "numa_node", bad)
    try:
        number = -1 if text is None else int(text)
    except ValueError:
        bad.append(device / "numa_node")
        return None
    return None if number < 0 else number


def _link_name(link: Path) -> str | None:
    try:
        return link.readlink().name
    except OSError:
        return None


def _read(file: Path, bad: list[Path]) -> str | None:
    """Text without white space around it; None if it is not there or cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError:
        bad.append(file)
        return None


def _pci_names(wanted: Set[str], files: Sequence[Path], bad: list[Path]) -> dict[str, str]:
    """Names by `vendor` and by `vendor:device`."""
    names: dict[str, str] = {}
    file = next((file for file in files if file.exists()), None)
    if file is None or not wanted:
        return names
    keys = wanted | {pci_id[:4] for pci_id in wanted}
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            vendor = ""
            for line in lines:
                if line.startswith("C "):  # classes, after the last vendor
                    break
                match = _PCI_NAME.match(line)
                if match is None:  # comments, and subsystems behind two tabs
                    continue
                key = f"{vendor}:{match['number']}" if match["nested"] else match["number"]
                if not match["nested"]:
                    vendor = key
                if key in keys:
                    names[key] = match["name"].strip()
    except OSError:
        bad.append(file)
    return names
