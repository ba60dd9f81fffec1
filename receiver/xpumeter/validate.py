# SPDX-License-Identifier: Apache-2.0
"""What `xpumeter validate` finds: the effective configuration and the driver tables."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpumeter import config, drivers
from xpumeter.drivers import Tables
from xpumeter.export import table, tls
from xpumeter.model.calls import DriverTable, Kind

_COUNTED = tuple(kind for kind in Kind if kind is not Kind.OTHER)


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration and the driver tables that go with it; both are right."""

    config: config.Config
    tables: Tables

    def document(self) -> dict[str, Any]:
        """Both, for JSON: every setting with its value (secrets hidden), a summary per driver."""
        return {
            "config": config.show(self.config),
            "drivers": [_summary(each) for each in self.tables.by_driver.values()],
        }

    def text(self) -> str:
        """Both, for people: one line per setting, one per driver."""
        settings = _flat(config.show(self.config))
        summaries = [_summary(each) for each in self.tables.by_driver.values()]
        drivers_table = table.render(
            [name.upper() for name in summaries[0]],
            [[str(value) for value in summary.values()] for summary in summaries],
        )
        return f"{table.render(['SETTING', 'VALUE'], settings)}\n\n{drivers_table}"


def check(
    path: Path | None, places: Sequence[Path] = (), environ: Mapping[str, str] = os.environ
) -> Checked:
    """Read a configuration (None: the defaults), what it names, and driver tables in `places`.

    ConfigError or DriverTableError for the first thing that is wrong.
    """
    found = config.load(path, environ)
    if found.exporter and found.exporter.tls.has_files:
        tls.context(found.exporter.tls)
    return Checked(found, drivers.load([*found.receiver.driver_tables, *places]))


def _summary(driver: DriverTable) -> dict[str, str | int]:
    """What a table says, in one line: how many call numbers of each kind, core calls included."""
    kinds = list(driver.kinds.values())
    return {
        "driver": driver.driver,
        "type": str(driver.hw_type),
        **{str(kind): kinds.count(kind) for kind in _COUNTED},
        "file": driver.source,
    }


def _flat(shown: Mapping[str, Any], prefix: str = "") -> Iterator[list[str]]:
    for key, value in shown.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield [f"{prefix}{key}", _text(value)]


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "" if value == {} else value if isinstance(value, str) else json.dumps(value)
