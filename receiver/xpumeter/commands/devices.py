# SPDX-License-Identifier: Apache-2.0
"""`xpumeter devices`."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from xpumeter.commands.parsers import Commands, print_json
from xpumeter.errors import HostError, NotAttached

if TYPE_CHECKING:
    from xpumeter.model.kernel import KernelDevice

_SYS = Path("/sys")


def add(commands: Commands) -> None:
    """Add `devices`."""
    parser = commands.add(
        "devices", _devices, "list the accelerators of this host; opens no device"
    )
    parser.add_argument(
        "--tree", action="store_true", help="show where they are, and how near to each other"
    )
    parser.add_argument(
        "--sysfs",
        type=Path,
        default=_SYS,
        metavar="PATH",
        help="another host: its /sys, or a file that --record wrote",
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write what is read of /sys to FILE, without serial numbers; show nothing",
    )


def _devices(options: argparse.Namespace) -> int:
    if options.record:
        return _record(options.sysfs, options.record)
    from xpumeter import config, drivers, inventory, inventory_tree
    from xpumeter.export import table

    receiver = config.load(options.config).receiver
    tables = drivers.load(receiver.driver_tables)
    called = _called(receiver.pins) if options.sysfs == _SYS else ()
    with _sysfs(options.sysfs) as root:
        entries = inventory.entries(root, tables, called)
    if not entries:
        print(f"xpumeter: no device in {options.sysfs}/class/drm or accel", file=sys.stderr)
    if options.output == "json":
        print_json(entries)
    elif options.tree:
        print(inventory_tree.render(entries))
    else:
        print(table.render(inventory.HEADER, map(inventory.row, entries)))
        for note in inventory.notes(entries):
            print(f"xpumeter: {note}", file=sys.stderr)
    return 0


def _called(pins: Path) -> "Sequence[KernelDevice]":
    """Devices that were called, where something is attached and may be read."""
    from xpumeter.source.pins import Pins

    try:
        return Pins(pins).devices()
    except NotAttached:
        return ()


@contextmanager
def _sysfs(path: Path) -> Iterator[Path]:
    """The /sys of a host; that of a recorded one is made for as long as it is needed."""
    if not path.is_file():
        yield path
        return
    from xpumeter.source import record

    with tempfile.TemporaryDirectory(prefix="xpumeter-") as folder:
        yield record.unpack(path, Path(folder))


def _record(root: Path, file: Path) -> int:
    from xpumeter.source import record

    try:
        file.write_text(record.record(root), encoding="utf-8")
    except OSError as error:
        raise HostError(f"{file} cannot be written: {error.strerror}") from None
    print(f"recorded in {file}: read it before you send it; tests/hosts/ is where it belongs")
    return 0
