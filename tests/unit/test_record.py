# SPDX-License-Identifier: Apache-2.0
"""Recorded hosts: what is in the file, what is not, and that it is the host again."""

import re
from pathlib import Path

import pytest

from unit.recorded import HOSTS, names, sysfs_of
from xpumeter.errors import HostError
from xpumeter.source import record
from xpumeter.source.sysfs import read_devices
from xpumeter.source.topology import read_places

PRIVATE = "private-4711"


@pytest.mark.parametrize("host", [name for name in names() if name != "broken"])
def test_a_record_is_the_host_again(host: str, tmp_path: Path) -> None:
    """Devices and places are the same; recording the copy gives the same text."""
    root = sysfs_of(host, tmp_path)
    (tmp_path / "again.txt").write_text(record.record(root))
    again = record.unpack(tmp_path / "again.txt", tmp_path / "again")

    devices = read_devices(root, pci_ids=())
    assert read_devices(again, pci_ids=()) == devices
    assert read_places(devices, again) == read_places(devices, root)
    assert record.record(again) == record.record(root)


def test_a_record_has_no_private_details(tmp_path: Path) -> None:
    """Serial numbers, unique ids, MACs, EDIDs, names of USB devices' owners: none is in it."""
    root = sysfs_of("eight-gpus", tmp_path)
    gpu = root / "devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0"
    for name in ("serial_number", "unique_id", "vpd", "config", "net/eth0/address", "rom"):
        (gpu / name).parent.mkdir(parents=True, exist_ok=True)
        (gpu / name).write_text(PRIVATE)
    (gpu / "uevent").write_text(f"DRIVER=amdgpu\nOF_FULLNAME=/{PRIVATE}\nID_SERIAL={PRIVATE}\n")
    (gpu / "drm/card1/card1-DP-1").mkdir()
    (gpu / "drm/card1/card1-DP-1/edid").write_text(PRIVATE)
    (root / "class/drm/card1-DP-1").symlink_to(gpu / "drm/card1/card1-DP-1")
    properties = root / "class/kfd/kfd/topology/nodes/2/properties"
    properties.write_text(properties.read_text() + "unique_id 4711471147114711\nhive_id 4711\n")
    for hive in root.glob("devices/**/xgmi_hive_id"):
        hive.write_text("4711471147114711\n")

    text = record.record(root)

    assert "4711" not in text
    assert "xgmi_hive_id = 1\n" in text
    assert "/uevent = DRIVER=amdgpu\n" in text


def test_the_records_here_have_none_either() -> None:
    """No serial number, no MAC, no key but those that the recorder knows."""
    for host in names():
        text = (HOSTS / f"{host}.txt").read_text()
        assert not re.search(r"serial|unique_id|/net/|([0-9a-f]{2}:){5}[0-9a-f]{2}", text), host


def test_a_device_that_sleeps_is_not_woken(tmp_path: Path) -> None:
    """Reading a link wakes it on newer kernels: the files of its link are not even opened."""
    root = sysfs_of("three-cards-and-npu", tmp_path)
    card = root / "devices/pci0000:83/0000:83:01.0/0000:83:00.0"
    (card / "power").mkdir()
    (card / "power/runtime_status").write_text("suspended\n")
    (card / "current_link_speed").mkdir()  # opening it would be an error that is counted

    text = record.record(root)
    places = read_places(read_devices(root, pci_ids=()), root)

    assert "0000:83:00.0/current_link_speed" not in text
    assert places_of(places) == {}


def places_of(places: dict) -> dict:  # type: ignore[type-arg]
    """Links of every device."""
    return {step: link for place in places.values() for step, link in place.links.items()}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("../x = 1", "leads out of the recorded host"),
        ("/etc/x = 1", "leads out of the recorded host"),
        ("class/x -> /etc", "leads out of the recorded host"),
        ("class/x -> ../../etc", "leads out of the recorded host"),
        ("class/up -> ..\nclass/up/up/x = 1", "leads out of the recorded host"),
        ("what is this", "neither `PATH = TEXT` nor `PATH -> TARGET`"),
    ],
)
def test_a_record_cannot_write_elsewhere(line: str, said: str, tmp_path: Path) -> None:
    """Files come from strangers: each line stays in its folder, or is refused by its number."""
    file = tmp_path / "host.txt"
    file.write_text(f"# a host\n{line}\n")

    with pytest.raises(HostError) as refused:
        record.unpack(file, tmp_path / "into")

    assert str(refused.value) == f"{file}:{line.count(chr(10)) + 2}: {said}"
