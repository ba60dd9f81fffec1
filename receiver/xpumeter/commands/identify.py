# SPDX-License-Identifier: Apache-2.0
"""`xpumeter identify`."""

import argparse
import sys

from xpumeter.commands.parsers import Commands

_COLUMNS = ("pod_uid", "container_id", "unit", "path")


def add(commands: Commands) -> None:
    """Add `identify`."""
    parser = commands.add("identify", _identify, "say whose cgroup a path is, by its names alone")
    parser.add_argument(
        "path",
        nargs="*",
        default=["-"],
        metavar="PATH",
        help="as the kernel names it, or a line of /proc/PID/cgroup; - (the default) reads lines",
    )


def _identify(options: argparse.Namespace) -> int:
    from xpumeter.enrich.identity import identify, identify_process

    lines = [
        line.rstrip("\n")
        for path in options.path
        for line in (sys.stdin if path == "-" else [path])
        if line.strip()
    ]
    # A path begins at the root; a line of /proc/PID/cgroup with the number of a hierarchy.
    found = [
        identify(line) if line.startswith(("/", "..")) else identify_process(line) for line in lines
    ]
    if options.output == "json":
        import json

        for one in found:
            print(json.dumps({name: getattr(one, name) for name in _COLUMNS}))
        return 0
    from xpumeter.export import table

    rows = ([getattr(one, name) or "" for name in _COLUMNS] for one in found)
    print(table.render([name.upper().replace("_", " ") for name in _COLUMNS], rows))
    return 0
