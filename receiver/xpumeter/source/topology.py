# SPDX-License-Identifier: Apache-2.0
"""Where devices are: links, processors, hives. For commands only, since asking takes longer."""

import re
from collections.abc import Iterable
from pathlib import Path

from xpumeter.model.devices import Device, DeviceId, Link, Place
from xpumeter.source.attributes import Attributes
from xpumeter.source.sysfs import SYSFS, function_folders

# `16.0 GT/s PCIe`, before Linux 5.7 `16 GT/s`; `Unknown` (drivers/pci/probe.c, pci_speed_string).
_SPEED = re.compile(r"([0-9]+(?:\.[0-9]+)?) GT/s.*")
_WIDTHS = range(1, 33)
"""sysfs says 0 or 255 where there is no link."""


def read_places(devices: Iterable[Device], root: Path = SYSFS) -> dict[DeviceId, Place]:
    """Where each device is. Never raises; what sysfs does not tell is left out.

    No device is woken, as reading its link does on newer kernels (drivers/pci/pci-sysfs.c,
    pci_config_pm_runtime_get): the link of a device that sleeps is left out.
    """
    links: dict[str, Link | None] = {}
    places: dict[DeviceId, Place] = {}
    for device in devices:
        steps = dict(function_folders(root, device.path))
        for step, folder in steps.items():
            if step not in links:
                links[step] = _link(folder)
        own = next(reversed(steps.values()), None)
        cpus = (own.text("local_cpulist") if own else None) or None
        places[device.device_id] = Place(
            cpus=cpus,
            socket=_socket(root, cpus),
            links={step: link for step in steps if (link := links[step]) is not None},
            # A folder in the first device of a hive, a link to it in the others
            # (drivers/gpu/drm/amd/amdgpu/amdgpu_xgmi.c).
            hive=own.text("xgmi_hive_info/xgmi_hive_id") if own else None,
            virtual_functions=_virtual_functions(own) if own else None,
        )
    return places


def _link(folder: Attributes) -> Link | None:
    if folder.text("power/runtime_status") == "suspended":
        return None
    link = Link(
        speed_gt_s=_speed(folder.text("current_link_speed")),
        width=_width(folder.text("current_link_width")),
        max_speed_gt_s=_speed(folder.text("max_link_speed")),
        max_width=_width(folder.text("max_link_width")),
    )
    return link if link.max_width else None


def _speed(text: str | None) -> float | None:
    match = _SPEED.fullmatch(text or "")
    return float(match[1]) if match else None


def _width(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and int(text) in _WIDTHS else None


def _socket(root: Path, cpus: str | None) -> int | None:
    first = re.match(r"[0-9]+", cpus or "")
    if first is None:
        return None
    topology = Attributes(root / f"devices/system/cpu/cpu{first[0]}/topology")
    number = topology.integer("physical_package_id")
    return None if number is None or number < 0 else number


def _virtual_functions(function: Attributes) -> tuple[int, int] | None:
    possible = function.integer("sriov_totalvfs")
    return (function.integer("sriov_numvfs") or 0, possible) if possible else None
