# SPDX-License-Identifier: Apache-2.0
"""Devices, as kernel, sysfs and driver tables know them together."""

from xpumeter.enrich.devices import know
from xpumeter.model.calls import Call, DriverTable, HardwareType, Kind
from xpumeter.model.devices import Device, DeviceId
from xpumeter.model.kernel import Incarnation, KernelDevice

CORE = {0x09: Kind.FREE}
XE = DriverTable(
    driver="xe",
    hw_type=HardwareType.GPU,
    vendor="Intel",
    sysfs_drivers=("xe",),
    calls=(
        Call("DRM_IOCTL_XE_EXEC", 0x49, Kind.SUBMIT, "drm/xe_drm.h"),
        Call("DRM_IOCTL_GEM_CLOSE", 0x09, Kind.FREE, "drm/drm.h"),
    ),
    not_observable={},
    tested=(),
    source="xe.yaml",
)
CARD = Device(
    device_id=DeviceId("0000:03:00.0"),
    nodes=((226, 1), (226, 128)),
    node_names=("dri/card1", "dri/renderD128"),
    sysfs_driver="xe",
    pci_id="8086:e20b",
    vendor="Intel Corporation",
    model="Battlemage G21",
    numa_node=1,
)
VIRTIO = Device(
    DeviceId("0000:00:10.0"), ((226, 2),), ("dri/card2",), "virtio-pci", "1af4:1050", "V", "M", None
)


def called(name: str, *, minor: int = 128, driver: str = "xe", number: int = 1) -> KernelDevice:
    """What the kernel says of a device after its first call."""
    return KernelDevice(Incarnation(number), 226, minor, driver, name)


def test_all_that_is_known_of_a_device_comes_together() -> None:
    """Address and model are of sysfs, type, vendor and kinds of the driver table."""
    device = know(called("0000:03:00.0"), [VIRTIO, CARD], {"xe": XE}, CORE)

    assert device.device_id == "0000:03:00.0"
    assert (device.driver, device.hw_type, device.vendor) == ("xe", HardwareType.GPU, "Intel")
    assert (device.model, device.pci_id, device.numa_node) == ("Battlemage G21", "8086:e20b", 1)
    assert device.kinds == {0x49: Kind.SUBMIT, 0x09: Kind.FREE}


def test_a_driver_without_a_table_has_the_core_calls() -> None:
    """The device is counted all the same; its type is not known, its vendor is sysfs's."""
    device = know(called("0000:03:00.0", driver="nova"), [CARD], {"xe": XE}, CORE)

    assert (device.driver, device.hw_type, device.kinds) == ("nova", None, CORE)
    assert device.vendor == "Intel Corporation"


def test_nodes_and_incarnations_of_one_device_are_one() -> None:
    """Card and render node, before and after unbinding, have one id."""
    calls = [called("0000:03:00.0", minor=1), called("0000:03:00.0", minor=130, number=9)]

    assert len({know(each, [CARD], {"xe": XE}, CORE) for each in calls}) == 1


def test_a_node_number_that_went_to_another_device_names_nobody() -> None:
    """Who was unplugged keeps its own name, and does not get the model of who came after."""
    device = know(called("0000:05:00.0"), [CARD], {"xe": XE}, CORE)

    assert (device.device_id, device.model, device.numa_node) == ("0000:05:00.0", None, None)


def test_a_platform_device_does_not_take_the_address_of_a_card() -> None:
    """A node number of a platform device that a card has by now names nobody either."""
    assert know(called("vgem", driver="vgem"), [CARD], {}, CORE).device_id == "vgem"


def test_a_virtio_device_is_what_holds_it() -> None:
    """Where the kernel says virtio0, a number that moves, the node leads to the PCI address."""
    device = know(called("virtio0", minor=2, driver="virtio_gpu"), [CARD, VIRTIO], {}, CORE)
    stranger = know(called("virtio0", minor=1, driver="virtio_gpu"), [CARD, VIRTIO], {}, CORE)

    assert (device.device_id, device.pci_id) == ("0000:00:10.0", "1af4:1050")
    assert stranger.device_id == "virtio0"


def test_a_device_without_any_name_is_its_node_number() -> None:
    """What nobody can name is still told apart."""
    assert know(called("", minor=77), [CARD], {}, CORE).device_id == "226:77"
    assert know(called("", minor=1), [CARD], {}, CORE).device_id == CARD.device_id
