# SPDX-License-Identifier: Apache-2.0
"""The kernel's bytes become nouns. Touches no machine.

Bytes that are no whole record at the end of a buffer are left out; nothing here raises.
"""

import struct
from collections.abc import Iterator

from xpumeter.model.kernel import (
    CallEvent,
    CgroupId,
    CgroupName,
    DeviceTotal,
    Incarnation,
    KernelDevice,
    Losses,
    OpenCall,
    Row,
)
from xpumeter.source import layout

_ROWS = layout.record(layout.ROW_KEY.codes, layout.ROW.codes)
_ROW_BYTES = struct.Struct(f"{_ROWS.size}s")
_ROW_KEY_SIZE = layout.record(layout.ROW_KEY.codes).size
_CGROUPS = layout.record(layout.KEY_U64, layout.CGROUP_NAME.codes)
_DEVICES = layout.record(layout.DEVICE_KEY.codes, layout.DEVICE.codes)
_TOTALS = layout.record(layout.KEY_U32, layout.TOTAL.codes)
_LOSSES = layout.record(layout.KEY_U32, layout.LOSSES.codes)
_THREADS = layout.record(layout.KEY_U64, layout.THREAD.codes)
_EVENT = layout.record(layout.CALL_EVENT.codes)


def _records(record: struct.Struct, data: bytes) -> Iterator[tuple[int, ...]]:
    return record.iter_unpack(data[: len(data) - len(data) % record.size])


def _text(raw: int | bytes) -> str:
    """A C string. Bytes that are no UTF-8 are escaped, as systemd does: OTLP takes text only."""
    assert isinstance(raw, bytes)  # noqa: S101 (struct gives bytes for `s`)
    return raw.partition(b"\0")[0].decode(errors="backslashreplace")


class Rows:
    """Decodes readings of the rows, one after the other; most rows are the same as before."""

    def __init__(self) -> None:
        self._last: dict[bytes, Row] = {}
        self._offering = False

    def decode(self, data: bytes, *, offering: bool = False) -> tuple[Row, ...]:
        """Rows, each once: an iterator over a map that grows may show an element twice.

        A row that has not changed since the last reading is the same object. Only what was read
        through the reader that offers rows is offered.
        """
        if offering is not self._offering:
            self._last, self._offering = {}, offering
        rows: dict[bytes, Row] = {}
        fresh = False
        for (record,) in _ROW_BYTES.iter_unpack(data[: len(data) - len(data) % _ROWS.size]):
            row = self._last.get(record)
            if row is None:
                row, fresh = _row(record, offering=offering), True
            rows[record] = row
        if fresh:
            by_key = {record[:_ROW_KEY_SIZE]: row for record, row in rows.items()}
            if len(by_key) < len(rows):
                self._last = {}
                return tuple(by_key.values())
        self._last = rows
        return tuple(rows.values())


def _row(record: bytes, *, offering: bool) -> Row:
    cgroup_id, device, nr, error, calls, time_ns, first, offered, _tenant = _ROWS.unpack(record)
    is_offered = offering and offered == calls > 0
    return Row(cgroup_id, device, nr, error, calls, time_ns, first, is_offered)


def count_rows(data: bytes) -> int:
    """How many rows these are."""
    return len(data) // _ROWS.size


def decode_open_calls(data: bytes) -> tuple[OpenCall, ...]:
    """Calls that threads are in."""
    return tuple(
        OpenCall(CgroupId(cgroup_id), Incarnation(device), nr, start_ns, thread & 0xFFFFFFFF)
        for thread, start_ns, cgroup_id, _home, device, nr, is_open in _records(_THREADS, data)
        if is_open
    )


def decode_cgroups(data: bytes) -> dict[CgroupId, CgroupName]:
    """Names by cgroup id."""
    return {
        CgroupId(cgroup_id): CgroupName(
            CgroupId(cgroup_id), CgroupId(parent), _text(name), bool(dead_ns)
        )
        for cgroup_id, parent, _tenant, dead_ns, *_counts, name in _records(_CGROUPS, data)
    }


def count_cgroups(data: bytes) -> int:
    """How many names these are."""
    return len(data) // _CGROUPS.size


def decode_devices(data: bytes) -> tuple[KernelDevice, ...]:
    """Devices that were called, in any order."""
    return tuple(
        KernelDevice(
            # MAJOR and MINOR of the kernel's own dev_t, linux/kdev_t.h: 12 and 20 bits.
            Incarnation(incarnation),
            node >> 20,
            node & 0xFFFFF,
            _text(driver),
            _text(name),
        )
        for _, _, incarnation, node, driver, name in _records(_DEVICES, data)
    )


def decode_totals(data: bytes) -> tuple[DeviceTotal, ...]:
    """Totals of the devices that were called."""
    return tuple(
        DeviceTotal(Incarnation(device), returns, refused, lapsed)
        for device, returns, refused, lapsed in _records(_TOTALS, data)
        if returns
    )


def decode_losses(data: bytes) -> Losses:
    """All zero if there is no whole record."""
    for record in _records(_LOSSES, data):
        return Losses(*record[1:])
    return Losses()


def decode_event(data: bytes) -> CallEvent | None:
    """One ring record; None if it has another length."""
    if len(data) != _EVENT.size:
        return None
    boot_ns, cgroup_id, device, tgid, cmd, error = _EVENT.unpack(data)
    return CallEvent(boot_ns, CgroupId(cgroup_id), Incarnation(device), tgid, cmd, error)
