# SPDX-License-Identifier: Apache-2.0
"""All driver tables together, with the calls of DRM's core in each of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from xpumeter import data_files
from xpumeter.errors import DriverTableError
from xpumeter.model.calls import DriverTable

CORE = "core"
"""Name of the table of DRM's own calls: core.yaml."""

CORE_HEADER = "drm/drm.h"
"""What defines them."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Every driver that there is a table for.

    Attributes:
        by_driver: DRM name -> table, core calls included, in the order of the names.
        by_sysfs: `DRIVER=` of sysfs -> table.
        core: The core calls alone, for a driver without a table; `hw_type` is None.
    """

    by_driver: Mapping[str, DriverTable]
    by_sysfs: Mapping[str, DriverTable]
    core: DriverTable

    def of_sysfs(self, sysfs_driver: str | None) -> DriverTable | None:
        """Table that `DRIVER=` of sysfs stands for, until the first call tells the DRM name."""
        return self.by_sysfs.get(sysfs_driver) if sysfs_driver is not None else None


def load(places: Iterable[Path] = ()) -> Tables:
    """The shipped tables and those of `places`, folders or single files.

    A table replaces the one of the same driver from an earlier place, core.yaml too, or extends
    one of an earlier place. DriverTableError for the first thing that is wrong.
    """
    found: dict[str, DriverTable] = {}
    for place in [data_files.find("drivers"), *places]:
        found.update(_read_place(place, found))
    core = found.pop(CORE)
    by_driver = {driver: _with_core(found[driver], core) for driver in sorted(found)}
    by_sysfs: dict[str, DriverTable] = {}
    for table in by_driver.values():
        for sysfs_driver in table.sysfs_drivers:
            if other := by_sysfs.get(sysfs_driver):
                raise DriverTableError(
                    f"{table.source}: sysfs_drivers: {sysfs_driver!r} is {other.driver}'s already",
                    hint=f"see {other.source}",
                )
            by_sysfs[sysfs_driver] = table
    return Tables(by_driver, by_sysfs, core)


def _read_place(place: Path, earlier: Mapping[str, DriverTable]) -> dict[str, DriverTable]:
    """Tables of one folder or file, by driver."""
    from xpumeter.drivers.reader import read_table  # brings PyYAML, which attach does without

    try:
        # Hidden files are those that editors and mounted ConfigMaps keep for themselves.
        files = (
            sorted(file for file in place.glob("[!.]*") if file.suffix in (".yaml", ".yml"))
            if place.is_dir()
            else [place]
        )
    except OSError as fault:
        raise DriverTableError(f"{place}: cannot be read: {fault.strerror}") from None
    if not files:
        raise DriverTableError(
            f"{place}: no driver table in it", hint="a driver table is a .yaml file"
        )
    found: dict[str, DriverTable] = {}
    for file in files:
        table = read_table(file, earlier)
        if other := found.get(table.driver):
            raise DriverTableError(
                f"{file}: driver {table.driver!r} has a table already", hint=f"see {other.source}"
            )
        found[table.driver] = table
    return found


def _with_core(table: DriverTable, core: DriverTable) -> DriverTable:
    """The table and the core calls, in the order of the numbers. What the table says wins."""
    calls = {call.nr: call for call in (*core.calls, *table.calls)}
    return replace(
        table,
        calls=tuple(calls[nr] for nr in sorted(calls)),
        not_observable={**core.not_observable, **table.not_observable},
    )
