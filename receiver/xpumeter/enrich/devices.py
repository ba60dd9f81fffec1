# SPDX-License-Identifier: Apache-2.0
"""Joins what the kernel, sysfs and the driver tables say of one device."""

import re
from collections.abc import Mapping, Sequence

from xpumeter.model.calls import DriverTable, Kind
from xpumeter.model.devices import Device, DeviceId, KnownDevice
from xpumeter.model.kernel import KernelDevice

# On Linux 5.10 the parent of a virtio-gpu's DRM device is the virtio device, numbered in the order
# of probing, and not what holds it: sysfs must tell, by the node.
_VIRTIO = re.compile(r"virtio[0-9]+")


def know(
    kernel_device: KernelDevice,
    sysfs: Sequence[Device],
    tables: Mapping[str, DriverTable],
    core: Mapping[int, Kind],
) -> KnownDevice:
    """All that is known of a device that was called.

    `tables` are driver tables by DRM name, `core` the kinds of DRM's own calls, which stand in for
    a driver without a table. The kernel's name decides, so that several incarnations and nodes of
    one device are one `device_id`, and a node number that is another device's by now names nobody.
    """
    device = _in_sysfs(kernel_device, sysfs)
    table = tables.get(kernel_device.driver)
    return KnownDevice(
        device_id=device.device_id if device else _id_without_sysfs(kernel_device),
        driver=kernel_device.driver,
        hw_type=table.hw_type if table else None,
        # The table's first: it does not depend on whether this host has the PCI names.
        vendor=(table.vendor if table else None) or (device.vendor if device else None),
        model=device.model if device else None,
        pci_id=device.pci_id if device else None,
        numa_node=device.numa_node if device else None,
        kinds=table.kinds if table else core,
    )


def _in_sysfs(kernel_device: KernelDevice, sysfs: Sequence[Device]) -> Device | None:
    for device in sysfs:
        if device.device_id == kernel_device.name:
            return device
    node = (kernel_device.major, kernel_device.minor)
    at_node = next((device for device in sysfs if node in device.nodes), None)
    if at_node is None or not kernel_device.name:
        return at_node
    is_virtio = (at_node.sysfs_driver or "").startswith("virtio")
    return at_node if is_virtio and _VIRTIO.fullmatch(kernel_device.name) else None


def _id_without_sysfs(kernel_device: KernelDevice) -> DeviceId:
    return DeviceId(kernel_device.name or f"{kernel_device.major}:{kernel_device.minor}")
