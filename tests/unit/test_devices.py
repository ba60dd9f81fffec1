# SPDX-License-Identifier: Apache-2.0
"""Devices, as kernel, sysfs and driver tables know them together."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from xpumeter.enrich.devices import know, know_all, know_idle
from xpumeter.model.calls import Call, DriverTable, HardwareType, Kind
from xpumeter.model.devices import Device, DeviceId, KnownDevice, address_of
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
    path=("pci0000:00", "0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"),
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


ADDRESS = "0000:03:00.0"
I915 = replace(XE, driver="i915", sysfs_drivers=("i915",), source="i915.yaml")
TABLES = {"xe": XE, "i915": I915}
FIRST, SECOND = Incarnation(1), Incarnation(2)


def test_what_is_known_of_a_device_is_there_for_its_info() -> None:
    """Names of its nodes, the switch that it is behind: to join with other metrics."""
    device = know(called(ADDRESS), [CARD], TABLES, CORE)

    assert device.node_names == ("dri/card1", "dri/renderD128")
    assert (device.switch, device.part_of, device.gone) == ("0000:01:00.0", None, False)


def test_a_device_that_went_is_gone_and_keeps_its_names() -> None:
    """Sysfs has forgotten it; model, ids and nodes are those of before."""
    there = know_all([called(ADDRESS)], [CARD], TABLES, CORE, {})
    gone = know_all([called(ADDRESS)], [], TABLES, CORE, there)

    assert gone == {FIRST: replace(there[FIRST], gone=True)}
    assert not there[FIRST].gone


def test_a_device_that_came_again_is_the_same() -> None:
    """Same address, same driver: one id, and its new node names, before and after a call."""
    there = know_all([called(ADDRESS)], [CARD], TABLES, CORE, {})
    gone = know_all([called(ADDRESS)], [], TABLES, CORE, there)
    card = replace(CARD, node_names=("dri/card7",))

    idle_again = know_all([called(ADDRESS)], [card], TABLES, CORE, gone)
    again = know_all([called(ADDRESS), called(ADDRESS, number=2)], [card], TABLES, CORE, idle_again)

    assert idle_again[FIRST] == again[FIRST] == again[SECOND]
    assert again[FIRST].device_id == ADDRESS
    assert again[FIRST].node_names == ("dri/card7",)
    assert not again[FIRST].gone


def test_another_driver_at_an_address_is_another_device() -> None:
    """Neither gets the other's calls nor names; nor after a restart, when who left is forgotten."""
    other = replace(CARD, sysfs_driver="i915", model="Alchemist")
    before = know_all([called(ADDRESS)], [CARD], TABLES, CORE, {})
    both = [called(ADDRESS), called(ADDRESS, driver="i915", number=2)]

    uncalled = know_all(both[:1], [other], TABLES, CORE, before)
    seen = know_all(both, [other], TABLES, CORE, before)
    restarted = know_all(both, [other], TABLES, CORE, {})

    for known in (uncalled, seen, restarted):
        assert (known[FIRST].device_id, known[FIRST].driver) == (ADDRESS, "xe")
        assert known[FIRST].gone
        assert known[FIRST].model != "Alchemist"
    for known in (seen, restarted):
        assert known[SECOND].device_id == f"{ADDRESS} i915"
        assert address_of(known[SECOND].device_id) == ADDRESS
        assert (known[SECOND].model, known[SECOND].gone) == ("Alchemist", False)


def test_a_driver_without_a_table_is_known_to_be_another() -> None:
    """By the kernel's own names, or by what is in the slot now."""
    bochs = called(ADDRESS, driver="bochs-drm")
    slot = replace(CARD, sysfs_driver="bochs-drm", pci_id="1234:1111")

    before = know_all([bochs], [slot], TABLES, CORE, {})
    swapped = know_all([bochs], [replace(slot, pci_id="1b36:0100")], TABLES, CORE, before)
    xe = know_all([bochs], [CARD], TABLES, CORE, {})

    assert not before[FIRST].gone
    assert swapped[FIRST].gone
    assert xe[FIRST].gone


def test_nothing_is_gone_where_sysfs_is_not_to_be_had() -> None:
    """A process that sees no /sys must not end every series."""
    known = know_all([called(ADDRESS)], None, TABLES, CORE, {})

    assert not known[FIRST].gone
    assert know_all([called(ADDRESS)], None, TABLES, CORE, known) == known


def test_a_device_without_calls_is_known_by_its_table() -> None:
    """`DRIVER=` stands for the DRM name; a driver without a table is not named yet."""
    stranger = replace(VIRTIO, device_id=DeviceId("vkms"), sysfs_driver="faux_driver")

    idle = know_idle([], [CARD, stranger], TABLES, CORE)

    assert [(each.device_id, each.driver, each.hw_type) for each in idle.values()] == [
        (ADDRESS, "xe", HardwareType.GPU),
        ("vkms", "", None),
    ]
    assert idle[DeviceId(ADDRESS)].kinds == XE.kinds


def test_a_device_is_idle_until_it_is_called() -> None:
    """And again when it is another than the one that was called at its address."""
    known = know_all([called(ADDRESS)], [CARD], TABLES, CORE, {})
    other = replace(CARD, sysfs_driver="i915")
    left = know_all([called(ADDRESS)], [other], TABLES, CORE, known)

    def idle(devices: dict[Incarnation, KnownDevice], card: Device) -> list[str]:
        return list(know_idle(devices.values(), [card], TABLES, CORE))

    assert idle(known, CARD) == []
    assert idle(left, other) == [f"{ADDRESS} i915"]


ADDRESSES, DRIVERS = st.sampled_from(["0000:03:00.0", "vgem", ""]), st.sampled_from(["xe", "qxl"])
SLOTS = st.sampled_from([[], [CARD], [replace(CARD, sysfs_driver="i915")], [VIRTIO], None])


@given(st.lists(st.tuples(ADDRESSES, DRIVERS, SLOTS), max_size=8))
def test_incarnations_are_one_device_if_address_and_driver_are(
    history: list[tuple[str, str, list[Device] | None]],
) -> None:
    """Whatever came and went in between: one id for each pair, and never another."""
    seen: list[KernelDevice] = []
    known: dict[Incarnation, KnownDevice] = {}
    for number, (address, driver, sysfs) in enumerate(history, 1):
        seen.append(called(address, minor=50 + (driver == "xe"), driver=driver, number=number))
        before, known = known, know_all(seen, sysfs, TABLES, CORE, known)

        assert known.keys() == {each.incarnation for each in seen}
        assert all(known[each].device_id == before[each].device_id for each in before)
        pairs = {(each.name or each.minor, each.driver) for each in seen}
        assert len({each.device_id for each in known.values()}) == len(pairs)
