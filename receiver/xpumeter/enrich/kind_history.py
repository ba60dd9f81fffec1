# SPDX-License-Identifier: Apache-2.0
"""A changed driver table counts from its load on: what was counted before keeps its kind.

Rows hold call numbers and running totals, so a number that changes its kind would take all of its
past along: one series would step back, and the other jump. So a row is cut where its kind changed,
into rows with numbers of ours that stand for a kind, and a last one that holds what came since.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from xpumeter.model.calls import NR_FOREIGN, Kind
from xpumeter.model.devices import KnownDevice
from xpumeter.model.kernel import Incarnation, Row, RowKey
from xpumeter.model.kinds import Before, KindHistory

# Numbers of ours, beyond those of the kernel's rows: a call's number and what it was before. Each
# part of a row keeps a number of its own, so that it is a row among others.
_STEP = 0x1000
_OFFSETS = {kind: _STEP * place for place, kind in enumerate(Kind, start=1)}
_KINDS_BEFORE = {
    offset + nr: kind for kind, offset in _OFFSETS.items() for nr in range(NR_FOREIGN + 1)
}


def with_kinds_before(device: KnownDevice) -> KnownDevice:
    """The device, with a kind for the numbers that `cut` gives too."""
    return replace(device, kinds={**device.kinds, **_KINDS_BEFORE})


def changed(
    history: KindHistory,
    rows: Iterable[Row],
    devices: Mapping[Incarnation, KnownDevice],
    *,
    boot_ns: int,
) -> KindHistory:
    """The history from `boot_ns` (CLOCK_BOOTTIME) on, when these devices have these kinds.

    What `rows` hold is counted under the kinds that `history` has for their drivers; a driver that
    is not in it was never counted, and nothing of it changes. The same object if nothing did.
    """
    now = {device.driver: _own(device.kinds) for device in devices.values()}
    if all(history.drivers.get(driver) == kinds for driver, kinds in now.items()):
        return history
    found = {key_of(row): row for row in rows}
    # What is not there any more has no past that could matter.
    changes = {key: past for key, past in history.rows.items() if key in found}
    for key, row in found.items():
        device = devices.get(row.device)
        before = history.drivers.get(device.driver) if device else None
        if device is None or before is None:
            continue
        was, becomes = (kinds.get(row.nr, Kind.OTHER) for kinds in (before, device.kinds))
        if was is not becomes:
            past = changes.get(key, ()) if _is_of(row, changes.get(key, ())) else ()
            changes[key] = (*past, Before(was, row.calls, row.time_ns, boot_ns))
    return KindHistory({**history.drivers, **now}, changes)


def cut(history: KindHistory, rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows, each cut where its kind changed; together they hold the same calls and time."""
    if not history.rows:
        return tuple(rows)
    return tuple(part for row in rows for part in _parts(row, history.rows.get(key_of(row), ())))


def _parts(row: Row, past: tuple[Before, ...]) -> Iterator[Row]:
    if not _is_of(row, past):
        yield row
        return
    calls, time_ns, begin_boot_ns = 0, 0, row.first_boot_ns
    by_kind: dict[Kind, Row] = {}
    for before in past:
        # A kind that came back is one row: two with one key would be one row seen twice.
        so_far = by_kind.get(before.kind)
        part = row._replace(
            nr=_OFFSETS[before.kind] + row.nr,
            calls=before.calls - calls + (so_far.calls if so_far else 0),
            time_ns=before.time_ns - time_ns + (so_far.time_ns if so_far else 0),
            first_boot_ns=so_far.first_boot_ns if so_far else begin_boot_ns,
        )
        by_kind[before.kind] = part
        calls, time_ns, begin_boot_ns = before.calls, before.time_ns, before.until_boot_ns
    yield from (part for part in by_kind.values() if part.calls)
    if row.calls > calls:
        yield row._replace(
            calls=row.calls - calls,
            time_ns=max(0, row.time_ns - time_ns),
            first_boot_ns=begin_boot_ns,
        )


def key_of(row: Row) -> RowKey:
    """Its key in the kernel's map; of a part of a row, that of the row."""
    return RowKey(row.cgroup_id, row.device, row.nr % _STEP, row.error)


def _own(kinds: Mapping[int, Kind]) -> dict[int, Kind]:
    return {nr: kind for nr, kind in kinds.items() if nr not in _KINDS_BEFORE}


def _is_of(row: Row, past: tuple[Before, ...]) -> bool:
    """Whether this is the row that had this past, and not one that was made anew since."""
    return bool(past) and row.first_boot_ns <= past[0].until_boot_ns and row.calls >= past[-1].calls
