# SPDX-License-Identifier: Apache-2.0
"""Devices, as whole sysfs trees of hosts show them (tests/hosts)."""

from pathlib import Path

import pytest

from unit.recorded import sysfs_of
from xpumeter.model.devices import Device, DeviceId
from xpumeter.source.sysfs import look, read_devices

PCI_IDS = """\
# List of PCI ID's

1af4  Red Hat, Inc.
\t1050  Virtio 1.0 GPU
\t\t1af4 1100  Subsystem of it
1b36  Red Hat, Inc.
8086  Intel Corporation
\te20b  Battlemage G21 [Arc B580]
C 03  Display controller
\te20b  No device
"""


@pytest.fixture
def pci_ids(tmp_path: Path) -> Path:
    """A list of PCI names that lacks qxl's device and the NPU's."""
    file = tmp_path / "pci.ids"
    file.write_text(PCI_IDS)
    return file


class Hosts:
    """Devices of a recorded host by id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(
        self, host: str, *pci_ids: Path, bad: list[Path] | None = None
    ) -> dict[str, Device]:
        root = self._folder / host
        if not root.exists():
            sysfs_of(host, self._folder)
        devices = read_devices(root, pci_ids=pci_ids, bad=bad)
        assert list(devices) == sorted(devices, key=lambda device: device.device_id)
        return {device.device_id: device for device in devices}


@pytest.fixture
def devices_of(tmp_path: Path) -> Hosts:
    """Reads recorded hosts."""
    return Hosts(tmp_path / "hosts")


def test_a_device_is_all_that_sysfs_says_of_it(devices_of: Hosts, pci_ids: Path) -> None:
    """Address, both nodes, driver, ids, names, NUMA node: of the second of three equal cards."""
    assert devices_of("three-cards-and-npu", pci_ids)["0000:44:00.0"] == Device(
        device_id=DeviceId("0000:44:00.0"),
        nodes=((226, 1), (226, 129)),
        node_names=("dri/card1", "dri/renderD129"),
        sysfs_driver="xe",
        pci_id="8086:e20b",
        vendor="Intel Corporation",
        model="Battlemage G21 [Arc B580]",
        numa_node=1,
        bus="pci",
        path=("pci0000:44", "0000:44:01.0", "0000:44:00.0"),
    )


def test_cards_of_one_model_are_told_apart_by_their_address(
    devices_of: Hosts, pci_ids: Path
) -> None:
    """Three equal cards are three devices, each with its own nodes; no connector is a device."""
    devices = devices_of("three-cards-and-npu", pci_ids)
    cards = [each for each in devices.values() if each.pci_id == "8086:e20b"]

    assert [each.device_id for each in cards] == ["0000:03:00.0", "0000:44:00.0", "0000:83:00.0"]
    assert [each.numa_node for each in cards] == [0, 1, 1]
    assert len({node for each in cards for node in each.nodes}) == 6


def test_an_npu_is_in_a_class_of_its_own(devices_of: Hosts, pci_ids: Path) -> None:
    """Accel nodes are found like DRM's; a model that the list lacks is None, its vendor is not."""
    npu = devices_of("three-cards-and-npu", pci_ids)["0000:00:0b.0"]

    assert (npu.nodes, npu.node_names) == (((261, 0),), ("accel/accel0",))
    assert (npu.sysfs_driver, npu.vendor, npu.model) == ("intel_vpu", "Intel Corporation", None)
    assert npu.numa_node is None  # -1: a host without NUMA


def test_nodes_of_one_device_are_joined_whatever_their_numbers(devices_of: Hosts) -> None:
    """card4 and renderD128 are one virtio-gpu, card5 and renderD129 the other."""
    devices = devices_of("virtio-qxl-vgem")

    assert {each.device_id: each.node_names for each in devices.values()} == {
        "0000:00:10.0": ("dri/card4", "dri/renderD128"),
        "0000:00:11.0": ("dri/card5", "dri/renderD129"),
        "0000:00:14.0": ("dri/card2",),
        "vgem": ("dri/card6", "dri/renderD130"),
    }
    assert devices["0000:00:10.0"].sysfs_driver == "virtio-pci"


def test_a_platform_device_has_its_name_and_no_more(devices_of: Hosts, pci_ids: Path) -> None:
    """No driver, no ids and no NUMA node in sysfs: all of that is None."""
    bad: list[Path] = []
    vgem = devices_of("virtio-qxl-vgem", pci_ids, bad=bad)["vgem"]

    assert vgem == Device(
        device_id=DeviceId("vgem"),
        nodes=((226, 6), (226, 130)),
        node_names=("dri/card6", "dri/renderD130"),
        sysfs_driver=None,
        pci_id=None,
        vendor=None,
        model=None,
        numa_node=None,
        bus="platform",
    )
    assert bad == []


def test_a_virtio_device_is_what_holds_it(devices_of: Hosts) -> None:
    """Below PCI it is the function, with its ids; elsewhere the platform device."""
    devices = devices_of("virtio-devices")

    assert devices.keys() == {"0000:00:03.0", "a003e00.virtio_mmio"}
    assert devices["0000:00:03.0"].pci_id == "1af4:1050"
    assert devices["a003e00.virtio_mmio"].pci_id is None
    assert devices["a003e00.virtio_mmio"].sysfs_driver == "virtio_gpu"


def test_damage_costs_what_is_damaged(devices_of: Hosts, tmp_path: Path) -> None:
    """A node or an attribute that makes no sense is left out and counted; the rest is there."""
    bad: list[Path] = []
    root = sysfs_of("broken", tmp_path / "hosts")
    uevent = root / "devices/pci0000:00/0000:00:02.0/uevent"
    uevent.write_bytes(b"\xff\xfe\0DRIVER\n=\n")
    devices = devices_of("broken", bad=bad)

    assert {each.device_id: each.nodes for each in devices.values()} == {
        "0000:00:01.0": ((226, 0),),
        "0000:00:02.0": ((226, 1),),
        "0000:00:05.0": ((226, 5),),
    }
    assert devices["0000:00:01.0"].pci_id == "8086:e20b"
    for damaged in ("0000:00:02.0", "0000:00:05.0"):
        assert devices[damaged].pci_id is None
        assert devices[damaged].numa_node is None
    # `DRIVER=` is unreadable in its uevent; the link says it too.
    assert devices["0000:00:02.0"].sysfs_driver == "xe"
    assert sorted("/".join(path.parts[-2:]) for path in bad) == [
        "0000:00:02.0/numa_node",
        "0000:00:02.0/vendor",
        "0000:00:05.0/vendor",
        "class/accel",
        "drm/card2",
        "drm/card3",
        "drm/card4",
        "drm/renderD128",
    ]


def test_a_host_without_devices_has_none(tmp_path: Path) -> None:
    """No class, no sysfs at all: an empty answer, and nothing is bad."""
    bad: list[Path] = []

    assert read_devices(tmp_path, bad=bad) == read_devices(tmp_path / "none", bad=bad) == ()
    assert bad == []


def test_names_come_from_the_first_list_that_is_there(
    devices_of: Hosts, pci_ids: Path, tmp_path: Path
) -> None:
    """Without any list the ids remain, and a list that is damaged hides no device."""
    damaged = tmp_path / "damaged.ids"
    damaged.write_bytes(b"\xff\xfe\n8086\n\t\n8086  \xffIntel\n\te20b\n")
    address = "0000:03:00.0"

    first = devices_of("three-cards-and-npu", tmp_path / "none", pci_ids)[address]
    none = devices_of("three-cards-and-npu", tmp_path / "none")[address]
    odd = devices_of("three-cards-and-npu", damaged)[address]

    assert (first.vendor, first.model) == ("Intel Corporation", "Battlemage G21 [Arc B580]")
    assert (none.pci_id, none.vendor, none.model) == ("8086:e20b", None, None)
    assert (odd.pci_id, odd.vendor, odd.model) == (
        "8086:e20b",
        "\N{REPLACEMENT CHARACTER}Intel",
        None,
    )


def test_parents_of_every_kind_are_devices(devices_of: Hosts) -> None:
    """Auxiliary, USB, faux, device tree, VMBus, host1x, PCI domains beyond 0000."""
    odd, pi = devices_of("odd-buses"), devices_of("raspberry-pi")
    every = {**odd, **pi, **devices_of("jetson"), **devices_of("rk3588")}
    every |= devices_of("cloud-guest")

    assert {name: each.bus for name, each in every.items()} == {
        "nova_core.nova-drm.0": "auxiliary",
        "1-2:1.0": "usb",
        "vkms": "faux",
        "10000:e1:00.0": "pci",
        "1002000000.v3d": "platform",
        "axi:gpu": "platform",
        "drm": "host1x",
        "display-subsystem": "platform",
        "fb000000.gpu": "platform",
        "rknn": "platform",
        "5620e0c7-8062-4dce-aeb7-520c7ef76171": "vmbus",
        "c3f2:00:02.0": "pci",
    }
    assert (odd["1-2:1.0"].vendor, odd["1-2:1.0"].model) == ("DisplayLink", "USB Display")
    assert odd["1-2:1.0"].pci_id is None  # not its controller's
    assert pi["1002000000.v3d"].model == "brcm,2712-v3d"
    assert every["rknn"].sysfs_driver is None


def test_a_part_says_of_what(devices_of: Hosts) -> None:
    """A virtual function of its physical one, a partition of its card, an auxiliary device."""
    virtual, partitions = devices_of("sriov"), devices_of("partitions")
    nova = devices_of("odd-buses")["nova_core.nova-drm.0"]

    assert {name: each.part_of for name, each in virtual.items()} == {
        "0000:4d:00.0": None,
        "0000:4d:00.1": "0000:4d:00.0",
        "0000:4d:00.2": "0000:4d:00.0",
    }
    assert {name: each.part_of for name, each in partitions.items()} == {
        "0000:01:00.0": None,
        "amdgpu_xcp_0": "0000:01:00.0",
        "amdgpu_xcp_1": "0000:01:00.0",
        "amdgpu_xcp_2": "0000:01:00.0",
    }
    assert (nova.part_of, nova.pci_id) == ("0000:01:00.0", "10de:2684")


def test_a_partition_without_kfd_is_a_device_all_the_same(tmp_path: Path) -> None:
    """Where KFD is not loaded or hides itself, only what the partition is a part of is unknown."""
    root = sysfs_of("partitions", tmp_path)
    (root / "class/kfd/kfd/topology/nodes").rename(tmp_path / "hidden")
    bad: list[Path] = []

    devices = read_devices(root, bad=bad)

    assert [each.part_of for each in devices] == [None] * 4
    assert bad == []


def test_a_look_tells_that_something_changed(tmp_path: Path) -> None:
    """Nothing did; a node went; it came again under its name; another class appeared."""
    root = sysfs_of("virtio-qxl-vgem", tmp_path)
    node = root / "class/drm/card2"
    seen = [look(root), look(root)]

    target = node.readlink()
    (root / "class/drm/keeps-the-inode").symlink_to(target)
    node.unlink()
    seen.append(look(root))
    (root / "class/drm/other").symlink_to(target)
    node.symlink_to(target)
    seen.append(look(root))
    (root / "class/accel").mkdir()
    seen.append(look(root))

    assert seen[0] == seen[1]
    assert len(set(seen)) == 4
    assert look(tmp_path / "none") == frozenset()
