# SPDX-License-Identifier: Apache-2.0
"""How near two devices are, and which of them are one card."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from xpumeter.model.devices import Device, DeviceId, Place


class Distance(StrEnum):
    """What lies between two devices on PCI, nearest first."""

    CARD = "card"
    """Functions, virtual functions or partitions of one card."""
    SWITCH = "switch"
    """A PCI switch below one root port: transfers between them need not pass the processor."""
    ROOT = "root"
    """A host bridge, through two of its root ports."""
    SOCKET = "socket"
    """The inside of a processor, between two of its host bridges."""
    ACROSS = "across"
    """The link between two processors."""


def bridges(path: Sequence[str]) -> tuple[str, ...]:
    """Addresses of the bridges above a device, its root port first.

    Those below its own host bridge: a VMD controller has one of its own inside of the processor's.
    """
    host_bridge = max((i for i, step in enumerate(path) if _is_host_bridge(step)), default=-1)
    return tuple(path[host_bridge + 1 : -1])


def switch_of(path: Sequence[str]) -> str | None:
    """Address of the PCI switch, the outermost, that a device is behind; None if it is behind none.

    A switch is two bridges below the root port: a port toward the processor, one toward the device.
    """
    below = bridges(path)[1:]
    return below[0] if len(below) > 1 else None


def card_of(device: Device) -> str | None:
    """What the parts of one card have in common: its place on PCI without the function's number.

    A dual card has a switch of its own, which nothing in sysfs tells from one in the host: its
    halves are two cards. None off the PCI bus.
    """
    function = device.part_of or (device.path[-1] if device.path else None)
    return function.partition(".")[0] if function else None


def distance(one: Device, other: Device, places: Mapping[DeviceId, Place]) -> Distance | None:
    """How near they are; None if one of them is not on PCI."""
    card = card_of(one)
    if card is not None and card == card_of(other):
        return Distance.CARD
    if not one.path or not other.path:
        return None
    shared = None
    for step, other_step in zip(one.path, other.path, strict=False):
        if step != other_step:
            break
        shared = step
    if shared is not None:
        return Distance.ROOT if _is_host_bridge(shared) else Distance.SWITCH
    same = _socket(one, places) == _socket(other, places)
    return Distance.SOCKET if same else Distance.ACROSS


def _is_host_bridge(step: str) -> bool:
    return step.startswith("pci")


def _socket(device: Device, places: Mapping[DeviceId, Place]) -> int | None:
    """Its socket, or else its NUMA node. A host that tells neither has one socket."""
    place = places.get(device.device_id)
    if place is not None and place.socket is not None:
        return place.socket
    return device.numa_node
