# SPDX-License-Identifier: Apache-2.0
"""Devices that come and go, from a tree of sysfs to what is exported."""

import logging
import shutil
import time
from pathlib import Path

import pytest

from unit.recorded import sysfs_of
from xpumeter import drivers
from xpumeter.devices import Devices
from xpumeter.drivers import Tables
from xpumeter.enrich.attribute import attribute
from xpumeter.enrich.ledger import Ledger
from xpumeter.export import catalog
from xpumeter.export.naming import Naming
from xpumeter.model.calls import Reason
from xpumeter.model.devices import Device, DeviceId
from xpumeter.model.kernel import (
    CgroupId,
    DeviceTotal,
    Incarnation,
    KernelDevice,
    Losses,
    Reading,
    Row,
)
from xpumeter.model.owners import Owner
from xpumeter.model.series import Snapshot
from xpumeter.source import sysfs

QXL, CARD2 = "0000:00:14.0", "class/drm/card2"
POD = CgroupId(7)
DEVICES_16_LIMIT_S = 0.1  # 5 ms on a quiet host: twenty times that is a fault


@pytest.fixture(scope="module")
def tables() -> Tables:
    """The shipped ones."""
    return drivers.load()


def called(number: int, driver: str = "qxl", name: str = QXL) -> KernelDevice:
    """What the kernel stored at the first call of an incarnation."""
    return KernelDevice(Incarnation(number), 226, 2, driver, name)


class Host:
    """A host with a qxl, of which one pod makes calls."""

    def __init__(self, tables: Tables, folder: Path) -> None:
        self.root = sysfs_of("virtio-qxl-vgem", folder)
        self.devices = Devices(tables, self.root)
        self.calls: dict[KernelDevice, int] = {}
        self._ledger = Ledger()
        self._unix_ns = 10**18
        self._naming = Naming({})

    def unplug(self) -> None:
        """The qxl's node goes, and its folder with it."""
        (self.root / CARD2).unlink()
        shutil.move(self.root / f"devices/pci0000:00/{QXL}", self.root / "unplugged")

    def plug(self) -> None:
        """The same comes again."""
        shutil.move(self.root / "unplugged", self.root / f"devices/pci0000:00/{QXL}")
        (self.root / CARD2).symlink_to(f"../../devices/pci0000:00/{QXL}/drm/card2")

    def export(self) -> Snapshot:
        """What a period gives."""
        rows = tuple(
            Row(POD, each.incarnation, 0x40, 0, calls, 0, 1) for each, calls in self.calls.items()
        )
        self.devices.update({row.device for row in rows}, lambda: tuple(self.calls))
        totals = tuple(DeviceTotal(row.device, row.calls, 0, 0) for row in rows)
        reading = Reading(totals, rows, totals, Losses())
        owners = {POD: Owner(pod_uid="u", container_id="c")}
        attribution = attribute(reading, self.devices.known, owners, frozenset())
        self._unix_ns += 10**10
        return self._ledger.update(attribution, unix_ns=self._unix_ns, boot_to_unix_ns=0)

    def points(self, snapshot: Snapshot) -> dict[tuple[str, str], tuple[int, bool]]:
        """(driver, metric) -> value, whether it has ended; of calls only."""
        return {
            (dict(resource)["xpumeter.driver"], key[0].name): (point.value, ended)  # type: ignore[misc]
            for resource, key, point, ended in self._naming.points(snapshot)
            if key[0] is catalog.CALLS
        }


@pytest.fixture
def host(tables: Tables, tmp_path: Path) -> Host:
    """Its devices are there, and none was called."""
    return Host(tables, tmp_path)


CALLS = "xpumeter.calls"


def test_the_series_of_a_device_that_went_end_with_its_last_value(host: Host) -> None:
    """Its calls stay in the sum, one on a file still open is added, and it may come again."""
    host.calls[called(1)] = 5
    assert host.points(host.export()) == {("qxl", CALLS): (5, False)}

    host.unplug()
    assert host.points(host.export()) == {("qxl", CALLS): (5, True)}
    host.calls[called(1)] = 6
    assert host.points(host.export()) == {("qxl", CALLS): (6, True)}

    host.plug()
    assert host.points(host.export()) == {("qxl", CALLS): (6, False)}
    host.calls[called(2)] = 4
    assert host.points(host.export()) == {("qxl", CALLS): (10, False)}


def test_who_comes_to_the_address_of_another_gets_none_of_its_calls(host: Host) -> None:
    """Two drivers at one address are two series, and the sum is that of the kernel."""
    host.calls[called(1)] = 5
    host.export()
    folder = host.root / f"devices/pci0000:00/{QXL}"
    (folder / "uevent").write_text("DRIVER=bochs-drm\n")
    (folder / "vendor").write_text("0x1234\n")
    host.calls[called(2, "bochs-drm")] = 3

    assert host.points(host.export()) == {
        ("qxl", CALLS): (5, True),
        ("bochs-drm", CALLS): (3, False),
    }


def test_calls_on_a_device_without_a_number_are_counted(host: Host) -> None:
    """After 255 incarnations the kernel has none to give: unknown_device, and nothing is lost."""
    host.devices.update({Incarnation(0)}, lambda: ())
    reading = Reading((), (Row(POD, Incarnation(0), 0x40, 0, 9, 0, 1),), (), Losses())

    attribution = attribute(reading, host.devices.known, {}, frozenset())

    assert attribution.usages == {}
    assert {key: tally.value for key, tally in attribution.unattributed.items()} == {
        (None, Reason.UNKNOWN_DEVICE): 9
    }


def test_a_driver_that_is_loaded_later_is_found(host: Host) -> None:
    """Its device is idle at once, without a call: what is there is told, used or not."""
    host.unplug()
    host.export()
    assert DeviceId(QXL) not in host.devices.idle

    host.plug()
    host.export()
    assert host.devices.idle[DeviceId(QXL)].node_names == ("dri/card2",)


def test_coming_and_going_is_a_line_each(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """And none while nothing changes."""
    caplog.set_level(logging.INFO)
    host.export()
    host.export()
    host.unplug()
    host.export()
    host.export()
    host.plug()
    host.export()

    assert [record.getMessage() for record in caplog.records] == [
        "event=devices count=4",
        f"event=device_gone device={QXL!r}",
        f"event=device_came device={QXL!r} driver=qxl nodes='dri/card2'",
    ]


def test_a_host_without_devices_says_so(
    tables: Tables, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once; no class and no node is an error, and nothing is bad."""
    caplog.set_level(logging.INFO)
    devices = Devices(tables, sysfs_of("nothing", tmp_path))

    for _ in range(3):
        devices.update(set(), lambda: ())

    assert [record.getMessage().split(" ")[0] for record in caplog.records] == ["event=no_device"]
    assert (devices.idle, devices.known, devices.bad) == ({}, {}, 0)


def test_sysfs_is_read_when_it_changed_and_not_otherwise(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a device's first call too; not in each period, and not for more calls."""
    reads = []
    real = sysfs.read_devices

    def read_devices(root: Path, *, bad: list[Path]) -> tuple[Device, ...]:
        reads.append(root)
        return real(root, bad=bad)

    monkeypatch.setattr(sysfs, "read_devices", read_devices)
    host.export()
    host.calls[called(1)] = 1
    host.export()
    assert len(reads) == 2
    for more in (2, 3, 4):
        host.calls[called(1)] = more
        host.export()
    assert len(reads) == 2
    host.unplug()
    host.export()
    assert len(reads) == 3


def test_sixteen_devices_are_read_in_milliseconds(tmp_path: Path) -> None:
    """And a look that finds nothing new costs a fraction of that."""
    root = sysfs_of("eight-gpus", tmp_path)
    for number in range(8, 16):  # eight more, beside the first
        card = root / f"devices/pci0000:00/0000:00:{number:02x}.0"
        shutil.copytree(
            root / "devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0",
            card,
            symlinks=True,
        )
        for old, new in (("card1", f"card{number + 10}"), ("renderD128", f"renderD{number + 140}")):
            node = (card / f"drm/{old}").rename(card / f"drm/{new}")
            (node / "device").unlink()
            (node / "device").symlink_to(f"../../../{card.name}")
            (root / f"class/drm/{new}").symlink_to(node)

    def fastest(action: object) -> float:
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            action(root)  # type: ignore[operator]
            times.append(time.perf_counter() - begin)
        return min(times)

    read_s, look_s = fastest(sysfs.read_devices), fastest(sysfs.look)
    print(f"17 devices: {read_s * 1e3:.1f} ms, look {look_s * 1e6:.0f} us")

    assert len(sysfs.read_devices(root)) == 17
    assert read_s < DEVICES_16_LIMIT_S
    assert look_s < read_s / 10
