# SPDX-License-Identifier: Apache-2.0
"""`xpumeter identify`."""

import argparse
import re
import sys

from xpumeter.commands.parsers import Commands

# A line of /proc/PID/cgroup begins with the number of a hierarchy; no cgroup path does so.
_PROC_LINE = re.compile(r"\d+:[^:]*:/")

_COLUMNS = ("pod_uid", "container_id", "unit", "path")


def add(commands: Commands) -> None:
    """Add `identify`."""
    parser = commands.add("identify", _identify, "say whose cgroup a path is, by its names alone")
    parser.add_argument(
        "path",
        nargs="*",
        default=["-"],
        metavar="PATH",
        help="as the kernel names it, or /proc/PID/cgroup's text: a line, or all of them, of which "
        "the one is taken that names most; - (the default) reads lines, each for itself",
    )


def _identify(options: argparse.Namespace) -> int:
    from xpumeter.enrich.identity import identify, identify_process

    lines = [
        line.rstrip("\n")
        for path in options.path
        for line in (sys.stdin if path == "-" else [path])
        if line.strip()
    ]
    found = [identify_process(line) if _PROC_LINE.match(line) else identify(line) for line in lines]
    if options.output == "json":
        import json

        for one in found:
            print(json.dumps({name: getattr(one, name) for name in _COLUMNS}))
        return 0
    from xpumeter.export import table

    rows = ([getattr(one, name) or "" for name in _COLUMNS] for one in found)
    print(table.render([name.upper().replace("_", " ") for name in _COLUMNS], rows))
    return 0
