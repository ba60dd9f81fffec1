# SPDX-License-Identifier: Apache-2.0
"""A driver table before it is mounted: is it right, and are its numbers those of a header?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xpumeter.drivers import headers
from xpumeter.drivers.reader import places
from xpumeter.drivers.tables import load
from xpumeter.errors import HostError
from xpumeter.model.calls import DriverTable


@dataclass(frozen=True, slots=True)
class Checked:
    """A table that is right.

    Attributes:
        table: As it will count, core calls included.
        replaces: File of the table of this driver that counts without it; None for a new driver.
        compared: How many numbers of the file were found in headers; None where none were asked.
    """

    table: DriverTable
    replaces: str | None
    compared: int | None


def check(file: Path, include: Sequence[Path] = (), others: Sequence[Path] = ()) -> Checked:
    """Read a table as `run` would, and compare its numbers with the headers below `include`.

    `include` are folders such as /usr/include; without any nothing is compiled. `others` are places
    of tables that come before this one.

    Raises:
        DriverTableError: The first thing that is wrong in it.
        HostError: There is no compiler or no such file, or a header does not compile.
    """
    if file.is_dir():
        raise HostError(
            f"{file} is a folder", hint="name one file; `validate --drivers` takes folders"
        )
    before, after = (
        {tables.core.driver: tables.core, **tables.by_driver}
        for tables in (load(others), load([*others, file]))
    )
    (table,) = (table for table in after.values() if table.source == str(file))
    old = before.get(table.driver)
    compared = _compare(file, table, include) if include else None
    return Checked(table, old.source if old else None, compared)


def _compare(file: Path, table: DriverTable, include: Sequence[Path]) -> int:
    header, nodes = places(file)
    calls = [call for call in table.calls if call.name in nodes]
    said = headers.numbers(calls, include)
    for call in calls:
        at = nodes[call.name]
        if not any((folder / call.header).is_file() for folder in include):
            raise at.get("header", header).wrong(
                f"{call.header} is not in {', '.join(map(str, include))}",
                hint="--headers names the folder that has it, such as /usr/include",
            )
        if call.name not in said:
            raise at["name"].wrong(
                f"{call.header} has no {call.name}",
                hint="a slip, or a call of a newer kernel than these headers are of",
            )
        type_byte, nr = said[call.name]
        if type_byte != headers.DRM_TYPE:
            raise at["name"].wrong(
                f"{call.name} is of ioctl type {type_byte:#04x}, not DRM's {headers.DRM_TYPE:#04x}",
                hint="drm_ioctl refuses such a call: it has no place in a driver table",
            )
        if nr != call.nr:
            raise at["nr"].wrong(
                f"{call.nr:#04x}, but {call.header} has {nr:#04x}", hint=f"write nr: {nr:#04x}"
            )
    return len(calls)
