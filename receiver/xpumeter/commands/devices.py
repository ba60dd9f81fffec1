# SPDX-License-Identifier: Apache-2.0
"""`xpumeter devices`."""

import argparse
import sys
from pathlib import Path

from xpumeter.commands.parsers import Commands, print_json


def add(commands: Commands) -> None:
    """Add `devices`."""
    parser = commands.add(
        "devices", _devices, "list the accelerators of this host; opens no device"
    )
    parser.add_argument(
        "--sysfs", type=Path, default=Path("/sys"), metavar="DIR", help="another host's /sys"
    )


def _devices(options: argparse.Namespace) -> int:
    from xpumeter import config, drivers, inventory
    from xpumeter.export import table

    tables = drivers.load(config.load(options.config).receiver.driver_tables)
    entries = inventory.entries(options.sysfs, tables)
    if not entries:
        print(f"xpumeter: no device in {options.sysfs}/class/drm or accel", file=sys.stderr)
    if options.output == "json":
        print_json(entries)
    else:
        print(table.render(inventory.HEADER, map(inventory.row, entries)))
        for note in inventory.notes(entries):
            print(f"xpumeter: {note}", file=sys.stderr)
    return 0
