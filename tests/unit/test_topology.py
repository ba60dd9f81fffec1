# SPDX-License-Identifier: Apache-2.0
"""Where devices are and how near to each other, on recorded hosts."""

from pathlib import Path

import pytest

from unit.recorded import sysfs_of
from xpumeter import drivers, inventory, inventory_tree
from xpumeter.drivers import Tables
from xpumeter.enrich.topology import switch_of
from xpumeter.inventory import Entry
from xpumeter.model.kernel import Incarnation, KernelDevice
from xpumeter.source.sysfs import read_devices
from xpumeter.source.topology import read_places


@pytest.fixture(scope="module")
def tables() -> Tables:
    """The shipped ones."""
    return drivers.load()


def entries_of(host: str, tables: Tables, folder: Path) -> dict[str, Entry]:
    """What `xpumeter devices` knows of a recorded host, by id."""
    return {each["id"]: each for each in inventory.entries(sysfs_of(host, folder), tables)}


def test_eight_cards_are_near_in_pairs(tables: Tables, tmp_path: Path) -> None:
    """Behind one switch, in one socket, across: as the boards are wired."""
    first = entries_of("eight-gpus", tables, tmp_path)["0000:03:00.0"]["topology"]

    assert first["distance"] == {
        "0000:04:00.0": "switch",
        "0000:43:00.0": "socket",
        "0000:44:00.0": "socket",
        "0000:83:00.0": "across",
        "0000:84:00.0": "across",
        "0000:c3:00.0": "across",
        "0000:c4:00.0": "across",
        "0000:c6:00.0": "across",
    }
    assert first["switch"] == "0000:01:00.0"
    assert (first["socket"], first["cpus"]) == (0, "0-47,96-143")
    assert len(first["xgmi"]) == 7
    assert "0000:c6:00.0" not in first["xgmi"]  # the board's own display


def test_distance_is_the_same_from_both_sides(tables: Tables, tmp_path: Path) -> None:
    """For every pair on every host."""
    for host in ("eight-gpus", "sriov", "partitions", "odd-buses", "three-cards-and-npu"):
        entries = entries_of(host, tables, tmp_path)
        for one in entries.values():
            for other, distance in one["topology"]["distance"].items():
                assert entries[other]["topology"]["distance"][one["id"]] == distance


def test_parts_of_one_card_know_each_other(tables: Tables, tmp_path: Path) -> None:
    """Virtual functions, and partitions, which are on no bus themselves."""
    virtual = entries_of("sriov", tables, tmp_path)
    partitions = entries_of("partitions", tables, tmp_path)

    assert virtual["0000:4d:00.1"]["topology"]["same_card"] == ["0000:4d:00.0", "0000:4d:00.2"]
    assert virtual["0000:4d:00.0"]["topology"]["virtual_functions"] == {
        "enabled": 2,
        "possible": 31,
    }
    assert partitions["amdgpu_xcp_1"]["topology"]["same_card"] == [
        "0000:01:00.0",
        "amdgpu_xcp_0",
        "amdgpu_xcp_2",
    ]


def test_a_link_is_told_as_it_is_and_as_it_could_be(tmp_path: Path) -> None:
    """The card that runs at half its speed; what has no link has none."""
    root = sysfs_of("eight-gpus", tmp_path)
    places = read_places(devices := read_devices(root, pci_ids=()), root)
    slow = next(each for each in devices if each.device_id == "0000:84:00.0")

    link = places[slow.device_id].links["0000:84:00.0"]
    assert (link.speed_gt_s, link.width, link.max_speed_gt_s, link.max_width) == (16, 16, 32, 16)
    assert len(places[slow.device_id].links) == 4


def test_a_vmd_controller_is_no_switch(tables: Tables, tmp_path: Path) -> None:
    """It has a host bridge of its own inside the processor's, and a card behind it is near all."""
    entries = entries_of("odd-buses", tables, tmp_path)
    card = entries["10000:e1:00.0"]["topology"]

    assert card["path"][:3] == ["pci0000:00", "0000:00:0e.0", "pci10000:e0"]
    assert card["switch"] is None
    assert card["distance"] == {"nova_core.nova-drm.0": "root"}


def test_what_is_behind_a_plain_bridge_is_behind_no_switch() -> None:
    """A switch has two ports on the way; one bridge is a bridge, a root port is neither."""
    root, port, up, down = "pci0000:00", "0000:00:01.0", "0000:01:00.0", "0000:02:01.0"

    assert switch_of((root, port, up, down, "0000:03:00.0")) == up
    assert switch_of((root, port, up, "0000:02:00.0")) is None
    assert switch_of((root, port, "0000:01:00.0")) is None
    assert switch_of((root, "0000:00:02.0")) is None
    assert switch_of(()) is None


def test_nvlink_is_said_to_be_unseen(tables: Tables, tmp_path: Path) -> None:
    """No file tells of it: never an empty list that would read as `no link`."""
    entries = entries_of("odd-buses", tables, tmp_path)

    assert "NVLink" in entries["nova_core.nova-drm.0"]["topology"]["not_observable"]
    assert entries["10000:e1:00.0"]["topology"]["not_observable"] == {}


def test_the_tree_of_a_host(tables: Tables, tmp_path: Path) -> None:
    """Sockets, host bridges, ports, devices with their nodes and links; then who is near whom."""
    entries = inventory.entries(sysfs_of("sriov", tmp_path), tables)

    assert inventory_tree.render(entries).splitlines() == [
        "socket 0, NUMA node 0, CPUs 0-31",
        "└─ pci0000:4a",
        "   └─ 0000:4a:02.0  root port  16 GT/s x16",
        "      └─ 0000:4b:00.0  switch  16 GT/s x16",
        "         └─ 0000:4c:01.0  switch  16 GT/s x16",
        "            ├─ 0000:4d:00.0  xe  Intel  dri/card1 dri/renderD128  2.5 GT/s x1",
        "            ├─ 0000:4d:00.1  xe  Intel  dri/card2 dri/renderD129  part of 0000:4d:00.0",
        "            └─ 0000:4d:00.2  xe  Intel  dri/card3 dri/renderD130  part of 0000:4d:00.0",
        "",
        "DISTANCE      0000:4d:00.0  0000:4d:00.1  0000:4d:00.2",
        "0000:4d:00.0  -             card          card",
        "0000:4d:00.1  card          -             card",
        "0000:4d:00.2  card          card          -",
    ]


def test_after_a_call_the_kernel_names_the_driver(tables: Tables, tmp_path: Path) -> None:
    """Sysfs has no word for vgem; the kernel has, from the first call on."""
    root = sysfs_of("virtio-qxl-vgem", tmp_path)
    called = [KernelDevice(Incarnation(1), 226, 6, "vgem", "vgem")]

    before, after = (
        {each["id"]: each["driver"] for each in inventory.entries(root, tables, seen)}
        for seen in ((), called)
    )

    assert (before["vgem"], after["vgem"]) == (None, "vgem")
    assert before["0000:00:10.0"] == after["0000:00:10.0"] == "virtio_gpu"
