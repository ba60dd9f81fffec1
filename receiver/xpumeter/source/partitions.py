# SPDX-License-Identifier: Apache-2.0
"""Partitions of AMD's cards (CPX, DPX, ...), and which card each is of.

The first partition of a card has the card's own nodes. Each further one is a bare platform device
`amdgpu_xcp_N` with nodes of its own, and nothing in its folder leads to the card
(drivers/gpu/drm/amd/amdxcp/amdgpu_xcp_drv.c). What KFD publishes for ROCm does: each of its nodes
names a render node and a place on PCI (drivers/gpu/drm/amd/amdkfd/kfd_topology.c).
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from xpumeter.model.devices import Device
from xpumeter.source.attributes import Attributes

TOPOLOGY = "class/kfd/kfd/topology/nodes"

_DRM_MAJOR = 226


def is_partition(device: Device) -> bool:
    """Whether it is a partition without a place of its own on PCI."""
    return device.device_id.startswith("amdgpu_xcp_")


def cards(root: Path) -> dict[int, str]:
    """PCI address of the card by the minor number of each render node of it.

    Empty where KFD is not loaded. In a container that may not open the nodes KFD hides them, so
    what cannot be read is left out.
    """
    found: dict[int, str] = {}
    try:
        nodes = list((root / TOPOLOGY).iterdir())
    except OSError:
        return found
    for node in nodes:
        text = Attributes(node).text("properties") or ""
        words = (line.split() for line in text.splitlines())
        values = {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}
        # Bits 28 up of the place are the partition's number.
        place, minor = values.get("location_id", 0) & 0xFFFF, values.get("drm_render_minor", 0)
        if minor > 0:
            bus, slot, function = place >> 8, place >> 3 & 0x1F, place & 7
            found[minor] = f"{values.get('domain', 0):04x}:{bus:02x}:{slot:02x}.{function}"
    return found


def with_card(device: Device, card_of: Mapping[int, str]) -> Device:
    """The device, as a part of its card if it is a partition of one."""
    if not is_partition(device):
        return device
    minors = [minor for major, minor in device.nodes if major == _DRM_MAJOR]
    return replace(device, part_of=next((card_of[m] for m in minors if m in card_of), None))
