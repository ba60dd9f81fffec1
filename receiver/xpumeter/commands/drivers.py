# SPDX-License-Identifier: Apache-2.0
"""`xpumeter drivers list`, `show` and `check`."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpumeter.commands.parsers import Commands, print_facts, print_json

if TYPE_CHECKING:
    from xpumeter.drivers import Tables


def add(commands: Commands) -> None:
    """Add `drivers`."""
    group = commands.group("drivers", "driver tables: list them, show one, check one of your own")
    every = group.add("list", _list, "list the drivers that there is a table for")
    one = group.add(
        "show", _show, "show what is known of a driver: its calls, and what no call tells"
    )
    one.add_argument("driver", metavar="NAME", help="DRM name; core: DRM's own calls")
    for parser in (every, one):
        parser.add_argument(
            "--drivers",
            type=Path,
            action="append",
            default=[],
            metavar="DIR",
            help="folder or file of further driver tables; may be repeated",
        )
    check = group.add("check", _check, "check a driver table before it is mounted")
    check.add_argument("file", type=Path, metavar="FILE", help="the table")
    check.add_argument(
        "--headers",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="include folder, such as /usr/include: compile its headers (nothing is run) and "
        "compare each number; may be repeated",
    )


def _list(options: argparse.Namespace) -> int:
    from xpumeter.drivers.document import summary
    from xpumeter.export import table

    found = [summary(each) for each in _tables(options).by_driver.values()]
    if options.output == "json":
        print_json(found)
    else:
        header = [name.upper() for name in found[0]]
        print(table.render(header, ([_cell(value) for value in each.values()] for each in found)))
    return 0


def _show(options: argparse.Namespace) -> int:
    from xpumeter.drivers.document import document
    from xpumeter.errors import DriverTableError
    from xpumeter.yaml_nodes import nearest

    tables = _tables(options)
    # By the DRM name, else by what sysfs or the file calls it.
    by_file = {Path(table.source).stem: table for table in tables.by_driver.values()}
    known = {**by_file, **tables.by_sysfs, **tables.by_driver, tables.core.driver: tables.core}
    if options.driver not in known:
        raise DriverTableError(
            f"there is no table of a driver {options.driver!r}",
            hint=nearest(options.driver, [*tables.by_driver, tables.core.driver]),
        )
    found = document(known[options.driver])
    if options.output == "json":
        print_json(found)
    else:
        print("\n".join(_text(found)))
    return 0


def _check(options: argparse.Namespace) -> int:
    from xpumeter import config
    from xpumeter.drivers.check import check

    others = config.load(options.config).receiver.driver_tables
    checked = check(options.file, options.headers, others)
    own = [call for call in checked.table.calls if not call.core]
    compared = (
        f"{checked.compared} compared with the headers, all equal"
        if checked.compared is not None
        else "not compared: --headers DIR names the headers"
    )
    print_facts(
        {
            "driver": checked.table.driver,
            "file": checked.table.source,
            "replaces": checked.replaces or "nothing: the driver is new",
            "calls": f"{len(own)} of its own, {len(checked.table.calls) - len(own)} of DRM's core",
            "observable": " ".join(checked.table.observable),
            "numbers": compared,
        },
        options.output,
    )
    return 0


def _tables(options: argparse.Namespace) -> "Tables":
    from xpumeter import config, drivers

    configured = config.load(options.config).receiver.driver_tables
    return drivers.load([*configured, *options.drivers])


def _cell(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else str(value or "")


def _text(found: dict[str, Any]) -> Iterator[str]:
    """A driver for people: facts, calls, what no call tells, reports."""
    from xpumeter.export import table

    nested = ("calls", "not_observable", "tested")
    facts = [(name, _cell(value)) for name, value in found.items() if name not in nested]
    width = max(len(name) for name, _ in facts) + 2
    yield from (f"{name:<{width}}{text or '-'}" for name, text in facts)
    yield ""
    calls = ((f"{call['nr']:#04x}", call["kind"], call["name"]) for call in found["calls"])
    yield table.render(["NR", "KIND", "NAME"], calls)
    yield ""
    yield table.render(["KIND", "NOT OBSERVABLE"], list(found["not_observable"].items()))
    if found["tested"]:
        yield ""
        yield from (f"tested: {' '.join(report.values())}" for report in found["tested"])
