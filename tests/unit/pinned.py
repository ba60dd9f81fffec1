# SPDX-License-Identifier: Apache-2.0
"""A folder of pins as `attach` leaves it, made of ordinary files: what the iterators would give."""

import struct
from collections.abc import Iterable
from pathlib import Path

from xpumeter.model.kernel import CgroupName, DeviceTotal, KernelDevice, OpenCall, Row
from xpumeter.source import layout


def _pack(*parts: tuple[str, tuple[object, ...]]) -> bytes:
    return b"".join(struct.pack("=" + codes, *values) for codes, values in parts)


def pack_rows(rows: Iterable[Row]) -> bytes:
    """As the file `rows` has them."""
    return b"".join(
        _pack(
            (layout.ROW_KEY.codes, (row.cgroup_id, row.device, row.nr, row.error)),
            (
                layout.ROW.codes,
                (row.calls, row.time_ns, row.first_boot_ns, row.calls if row.offered else 0, 0),
            ),
        )
        for row in rows
    )


def pack_open_calls(calls: Iterable[OpenCall]) -> bytes:
    """As the file `threads` has them."""
    return b"".join(
        _pack(
            ("Q", (call.tid << 32 | call.tid,)),
            (
                layout.THREAD.codes,
                (call.start_ns, call.cgroup_id, call.cgroup_id, call.device, call.nr, 1),
            ),
        )
        for call in calls
    )


def pack_cgroups(names: Iterable[CgroupName]) -> bytes:
    """As the file `cgroups` has them."""
    return b"".join(
        _pack(
            ("Q", (name.cgroup_id,)),
            (
                layout.CGROUP_NAME.codes,
                (
                    *(name.parent, name.cgroup_id, name.dead, 0, 0, 0, 0, 0),
                    name.name.encode(errors="surrogateescape"),
                ),
            ),
        )
        for name in names
    )


def pack_devices(devices: Iterable[KernelDevice]) -> bytes:
    """As the file `devices` has them."""
    return b"".join(
        _pack(
            (layout.DEVICE_KEY.codes, (0xFFFF0000 + device.incarnation, 7)),
            (
                layout.DEVICE.codes,
                (
                    device.incarnation,
                    device.major << 20 | device.minor,
                    device.driver.encode(),
                    device.name.encode(),
                ),
            ),
        )
        for device in devices
    )


def pack_totals(totals: Iterable[DeviceTotal]) -> bytes:
    """As the file `totals` has them."""
    return b"".join(
        _pack(
            ("I", (total.device,)),
            (layout.TOTAL.codes, (total.returns, total.refused, total.lapsed)),
        )
        for total in totals
    )


def pin(
    folder: Path,
    *,
    rows: Iterable[Row] = (),
    cgroups: Iterable[CgroupName] = (),
    devices: Iterable[KernelDevice] = (),
    totals: Iterable[DeviceTotal] = (),
    open_calls: Iterable[OpenCall] = (),
    version: int = layout.LAYOUT,
    attach_id: bytes = b"a" * 16,
    hierarchy: layout.Hierarchy = layout.Hierarchy.V2,
) -> Path:
    """Write the folder, or write it anew; its path."""
    folder.mkdir(exist_ok=True)
    rows, cgroups = tuple(rows), tuple(cgroups)
    meta = layout.Meta(version, 0, 1, 0, attach_id, b"s" * 32, hierarchy)
    files = {
        "threads": pack_open_calls(open_calls),
        "rows": pack_rows(rows),
        "offer_rows": pack_rows(rows),
        "retire_rows": pack_rows(row for row in rows if row.offered),
        "cgroups": pack_cgroups(cgroups),
        "retire_cgroups": b"",
        "devices": pack_devices(devices),
        "totals": pack_totals(totals),
        "losses": struct.pack("=I", 0) + bytes(struct.calcsize("=" + layout.LOSSES.codes)),
        "meta": struct.pack("=I", 0) + meta.pack(),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder
