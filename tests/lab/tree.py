# SPDX-License-Identifier: Apache-2.0
"""Programs of an unpacked tree, run on the host with the tree's own loader and libraries."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

LIBRARIES = "usr/lib/x86_64-linux-gnu"


def command(tree: Path, program: str, *args: str | Path, name: str = "") -> list[str]:
    """Argument vector that runs `program`, a path below the tree; `name` becomes its argv[0]."""
    return [
        str(tree / LIBRARIES / "ld-linux-x86-64.so.2"),
        "--library-path",
        f"{tree / LIBRARIES}:{tree / 'usr/lib'}",
        "--argv0",
        name or program.rsplit("/", 1)[-1],
        str(tree / program),
        *map(str, args),
    ]


def run(
    tree: Path,
    program: str,
    *args: str | Path,
    name: str = "",
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> bytes:
    """Run it and give its output; CalledProcessError if it fails."""
    done = subprocess.run(
        command(tree, program, *args, name=name),
        input=stdin,
        stdout=subprocess.PIPE,
        env={**os.environ, **(env or {})},
        check=True,
    )
    return done.stdout
