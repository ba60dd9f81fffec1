# SPDX-License-Identifier: Apache-2.0
"""A folder of pins as `attach` leaves it, made of ordinary files: what the iterators would give."""

import struct
from collections.abc import Iterable
from pathlib import Path

from xpumeter.model.kernel import (
    CgroupId,
    CgroupName,
    DeviceTotal,
    Incarnation,
    KernelDevice,
    OpenCall,
    Row,
)
from xpumeter.source import layout


def _pack(*parts: tuple[str, tuple[object, ...]]) -> bytes:
    return b"".join(struct.pack("=" + codes, *values) for codes, values in parts)


def pack_rows(rows: Iterable[Row]) -> bytes:
    """As the file `rows` has them."""
    return b"".join(
        _pack(
            (layout.ROW_KEY.codes, (row.cgroup_id, row.device, row.nr, row.error)),
            (layout.ROW.codes, (row.calls, row.time_ns, row.first_boot_ns)),
        )
        for row in rows
    )


def pack_cgroups(names: Iterable[CgroupName]) -> bytes:
    """As the file `cgroups` has them."""
    return b"".join(
        _pack(
            ("Q", (name.cgroup_id,)),
            (
                layout.CGROUP_NAME.codes,
                (name.parent, name.dead, name.name.encode(errors="surrogateescape")),
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


def pack_threads(calls: Iterable[OpenCall], *, idle: Iterable[int] = ()) -> bytes:
    """As the file `threads` has them; `idle` are threads whose last call has returned."""
    every = [(call, 1) for call in calls]
    every += [(OpenCall(CgroupId(1), Incarnation(1), 0, 1, tid), 0) for tid in idle]
    return b"".join(
        _pack(
            ("Q", (7 << 32 | call.tid,)),
            (
                layout.THREAD.codes,
                (call.start_ns, call.cgroup_id, call.device, call.nr, is_open),
            ),
        )
        for call, is_open in every
    )


def pin(
    folder: Path,
    *,
    rows: Iterable[Row] = (),
    cgroups: Iterable[CgroupName] = (),
    devices: Iterable[KernelDevice] = (),
    totals: Iterable[DeviceTotal] = (),
    calls: Iterable[OpenCall] = (),
    version: int = layout.LAYOUT,
    attach_id: bytes = b"a" * 16,
) -> Path:
    """Write the folder, or write it anew; its path."""
    folder.mkdir(exist_ok=True)
    meta = layout.Meta(version, 0, 1, 0, attach_id, b"s" * 32)
    files = {
        "rows": pack_rows(rows),
        "cgroups": pack_cgroups(cgroups),
        "devices": pack_devices(devices),
        "totals": pack_totals(totals),
        "threads": pack_threads(calls),
        "losses": struct.pack("=I", 0) + bytes(struct.calcsize("=" + layout.LOSSES.codes)),
        "meta": struct.pack("=I", 0) + meta.pack(),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder
