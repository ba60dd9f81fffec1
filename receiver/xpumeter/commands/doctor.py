# SPDX-License-Identifier: Apache-2.0
"""`xpumeter doctor`."""

import argparse
from pathlib import Path

from xpumeter.commands.parsers import Commands, print_json


def add(commands: Commands) -> None:
    """Add `doctor`."""
    parser = commands.add(
        "doctor", _doctor, "say what this host can do, what it cannot, and what to do about it"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write it and what it was found on into one file for a bug report, private names "
        "removed",
    )


def _doctor(options: argparse.Namespace) -> int:
    from xpumeter import doctor
    from xpumeter.errors import HostError

    found = doctor.examine(options.config)
    if options.report is not None:
        from xpumeter.doctor import report

        try:
            report.write(options.report, found)
        except OSError as error:
            raise HostError(
                f"{options.report}: {error.strerror}", hint="choose another file"
            ) from error
    if options.output == "json":
        print_json(found.document())
    else:
        print(found.text())
    return found.exit_code
