# SPDX-License-Identifier: Apache-2.0
"""Joins what the kernel, sysfs and the driver tables say of the devices of a host."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xpumeter.enrich.topology import switch_of
from xpumeter.model.calls import DriverTable, Kind
from xpumeter.model.devices import Device, DeviceId, KnownDevice, address_of
from xpumeter.model.kernel import Incarnation, KernelDevice

# On Linux 5.10 the parent of a virtio-gpu's DRM device is the virtio device, numbered in the order
# of probing, and not what holds it: sysfs must tell, by the node.
_VIRTIO = re.compile(r"virtio[0-9]+")

Tables = Mapping[str, DriverTable]
"""Driver tables by DRM name."""


def know_all(
    called: Iterable[KernelDevice],
    sysfs: Sequence[Device] | None,
    tables: Tables,
    core: Mapping[int, Kind],
    before: Mapping[Incarnation, KnownDevice],
) -> dict[Incarnation, KnownDevice]:
    """All that is known of the devices that were called, `before` being what was known last time.

    A device that sysfs does not show any more is `gone` and keeps what was known of it. At one
    address, incarnations of one driver are one device: it was unplugged and plugged again, and its
    series go on. Another driver is another device, with an id of its own. Where `sysfs` is not to
    be had (None), nothing is gone.
    """
    ordered = sorted(called, key=lambda device: device.incarnation)
    newest = {device.name: device for device in ordered}
    drivers: dict[DeviceId, str] = {}
    known: dict[Incarnation, KnownDevice] = {}
    for each in ordered:
        last = before.get(each.incarnation)
        found = _in_sysfs(each, sysfs or ())
        if found and not _is_still(each, found, newest[each.name], tables, last):
            found = None
        device = last
        if found is not None or device is None:
            device = know(each, [found] if found else [], tables, core)
        known[each.incarnation] = replace(
            device,
            device_id=_own_id(_base(device.device_id), device.driver, drivers),
            gone=found is None and sysfs is not None,
        )
    return known


def know_idle(
    known: Iterable[KnownDevice], sysfs: Sequence[Device], tables: Tables, core: Mapping[int, Kind]
) -> dict[DeviceId, KnownDevice]:
    """The devices that are there and were never called since `known` are those that were.

    Their driver is what `DRIVER=` of sysfs stands for in the driver tables; without a table it is
    not known until the first call.
    """
    known = tuple(known)
    present = {_base(device.device_id) for device in known if not device.gone}
    drivers = {
        device.device_id: device.driver
        for device in known
        if device.device_id == _base(device.device_id)
    }
    idle = {}
    for device in sysfs:
        if device.device_id in present:
            continue
        table = next((t for t in tables.values() if device.sysfs_driver in t.sysfs_drivers), None)
        driver = table.driver if table else ""
        own_id = _own_id(device.device_id, driver or str(device.sysfs_driver), dict(drivers))
        idle[own_id] = _joined(own_id, driver, device, table, core)
    return idle


def know(
    kernel_device: KernelDevice,
    sysfs: Sequence[Device],
    tables: Tables,
    core: Mapping[int, Kind],
) -> KnownDevice:
    """All that is known of a device that was called.

    `tables` are driver tables by DRM name, `core` the kinds of DRM's own calls, which stand in for
    a driver without a table. The kernel's name decides, so that several incarnations and nodes of
    one device are one `device_id`, and a node number that is another device's by now names nobody.
    """
    device = _in_sysfs(kernel_device, sysfs)
    device_id = device.device_id if device else _id_without_sysfs(kernel_device)
    driver = kernel_device.driver
    return _joined(device_id, driver, device, tables.get(driver), core)


def _joined(
    device_id: DeviceId,
    driver: str,
    device: Device | None,
    table: DriverTable | None,
    core: Mapping[int, Kind],
) -> KnownDevice:
    return KnownDevice(
        device_id=device_id,
        driver=driver,
        hw_type=table.hw_type if table else None,
        # The table's first: it does not depend on whether this host has the PCI names.
        vendor=(table.vendor if table else None) or (device.vendor if device else None),
        model=device.model if device else None,
        pci_id=device.pci_id if device else None,
        numa_node=device.numa_node if device else None,
        kinds=table.kinds if table else core,
        node_names=device.node_names if device else (),
        part_of=device.part_of if device else None,
        switch=switch_of(device.path) if device else None,
    )


def _base(device_id: DeviceId) -> DeviceId:
    return DeviceId(address_of(device_id))


def _own_id(device_id: DeviceId, driver: str, drivers: dict[DeviceId, str]) -> DeviceId:
    """Another driver at a known address is another device."""
    if drivers.setdefault(device_id, driver) == driver:
        return device_id
    return DeviceId(f"{device_id} {driver}")


def _is_still(
    kernel_device: KernelDevice,
    device: Device,
    newest: KernelDevice,
    tables: Tables,
    last: KnownDevice | None,
) -> bool:
    """Whether what sysfs shows at the address is what was called, and not who came after it."""
    if newest.driver != kernel_device.driver:
        return False
    if device.pci_id is None:
        return True
    if last is not None and last.pci_id not in {None, device.pci_id}:
        return False
    # A name of sysfs that no table has may be any driver's.
    return not any(
        device.sysfs_driver in table.sysfs_drivers
        for driver, table in tables.items()
        if driver != kernel_device.driver
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
