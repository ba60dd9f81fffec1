# SPDX-License-Identifier: Apache-2.0
"""`xpumeter validate`."""

import argparse
from pathlib import Path

from xpumeter.commands.parsers import Commands, print_json


def add(commands: Commands) -> None:
    """Add `validate`."""
    parser = commands.add(
        "validate", _validate, "check a configuration and driver tables, and print both"
    )
    parser.add_argument(
        "--drivers",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="folder or file of driver tables to check too; may be repeated",
    )


def _validate(options: argparse.Namespace) -> int:
    from xpumeter import validate

    checked = validate.check(options.config, options.drivers)
    if options.output == "json":
        print_json(checked.document())
    else:
        print(checked.text())
    return 0
