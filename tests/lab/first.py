# SPDX-License-Identifier: Apache-2.0
"""Whether this is a machine for the lab at all: said before anything else is imported.

Nothing here is newer than Python 3.6, so that an old one can still say what is missing.
"""

import os
import sys
from pathlib import Path

IN_DEBIAN = (
    'docker run --rm -it -v "$PWD":/xpumeter -v xpumeter-cache:/root/.cache -w /xpumeter '
    "debian:12 sh -c 'apt-get update && apt-get install -y git make python3-venv && make demo'"
)


def system() -> str:
    """`Debian 12, x86-64`, or ValueError that says what this is instead."""
    file = Path("/etc/os-release")
    lines = file.read_text().splitlines() if file.exists() else []
    release = dict(line.split("=", 1) for line in lines if "=" in line)
    name, version = (release.get(key, "?").strip('"') for key in ("ID", "VERSION_ID"))
    if name != "debian" or version not in ("12", "13"):
        raise ValueError(f"{name} {version}: the lab needs Debian 12 or 13")
    if os.uname()[4] != "x86_64":
        raise ValueError(f"{os.uname()[4]}: the lab needs x86-64")
    if sys.version_info < (3, 11):  # noqa: UP036 (this is where an older one is told)
        raise ValueError(f"Python {sys.version.split()[0]}: the lab needs 3.11 or later")
    return f"Debian {version}, x86-64"


if __name__ == "__main__":
    try:
        system()
    except ValueError as error:
        sys.exit(f"lab: {error}; in a container:\n  {IN_DEBIAN}")
