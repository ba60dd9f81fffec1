# SPDX-License-Identifier: Apache-2.0
"""Devices, as whole sysfs trees of hosts show them (tests/hosts)."""

from pathlib import Path

import pytest

from xpumeter.model.devices import Device, DeviceId
from xpumeter.source.sysfs import read_devices

HOSTS = Path(__file__).parents[1] / "hosts"

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


def devices_of(host: str, *pci_ids: Path, bad: list[Path] | None = None) -> dict[str, Device]:
    """Devices of one of the hosts by id."""
    devices = read_devices(HOSTS / host / "sys", pci_ids=pci_ids, bad=bad)
    assert list(devices) == sorted(devices, key=lambda device: device.device_id)
    return {device.device_id: device for device in devices}


def test_a_device_is_all_that_sysfs_says_of_it(pci_ids: Path) -> None:
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
    )


def test_cards_of_one_model_are_told_apart_by_their_address(pci_ids: Path) -> None:
    """Three equal cards are three devices, each with its own nodes; no connector is a device."""
    devices = devices_of("three-cards-and-npu", pci_ids)
    cards = [each for each in devices.values() if each.pci_id == "8086:e20b"]

    assert [each.device_id for each in cards] == ["0000:03:00.0", "0000:44:00.0", "0000:83:00.0"]
    assert [each.numa_node for each in cards] == [0, 1, 1]
    assert len({node for each in cards for node in each.nodes}) == 6


def test_an_npu_is_in_a_class_of_its_own(pci_ids: Path) -> None:
    """Accel nodes are found like DRM's; a model that the list lacks is None, its vendor is not."""
    npu = devices_of("three-cards-and-npu", pci_ids)["0000:00:0b.0"]

    assert (npu.nodes, npu.node_names) == (((261, 0),), ("accel/accel0",))
    assert (npu.sysfs_driver, npu.vendor, npu.model) == ("intel_vpu", "Intel Corporation", None)
    assert npu.numa_node is None  # -1: a host without NUMA


def test_nodes_of_one_device_are_joined_whatever_their_numbers() -> None:
    """card4 and renderD128 are one virtio-gpu, card5 and renderD129 the other."""
    devices = devices_of("virtio-qxl-vgem")

    assert {each.device_id: each.node_names for each in devices.values()} == {
        "0000:00:10.0": ("dri/card4", "dri/renderD128"),
        "0000:00:11.0": ("dri/card5", "dri/renderD129"),
        "0000:00:14.0": ("dri/card2",),
        "vgem": ("dri/card6", "dri/renderD130"),
    }
    assert devices["0000:00:10.0"].sysfs_driver == "virtio-pci"


def test_a_platform_device_has_its_name_and_no_more(pci_ids: Path) -> None:
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
    )
    assert bad == []


def test_a_virtio_device_is_what_holds_it() -> None:
    """Below PCI it is the function, with its ids; elsewhere the platform device."""
    devices = devices_of("virtio-devices")

    assert devices.keys() == {"0000:00:03.0", "a003e00.virtio_mmio"}
    assert devices["0000:00:03.0"].pci_id == "1af4:1050"
    assert devices["a003e00.virtio_mmio"].pci_id is None
    assert devices["a003e00.virtio_mmio"].sysfs_driver == "virtio_gpu"


def test_damage_costs_what_is_damaged() -> None:
    """A node or an attribute that makes no sense is left out and counted; the rest is there."""
    bad: list[Path] = []
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


def test_names_come_from_the_first_list_that_is_there(pci_ids: Path, tmp_path: Path) -> None:
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
