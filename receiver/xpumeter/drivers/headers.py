# SPDX-License-Identifier: Apache-2.0
"""What uapi headers say of a driver's calls: compiled by the host's compiler, and never run."""

import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from xpumeter.errors import HostError
from xpumeter.model.calls import Call

DRM_TYPE = 0x64
"""Type byte of DRM's calls: DRM_IOCTL_BASE in drm.h."""

_COMMAND_BASE = 0x40
"""DRM_COMMAND_BASE in drm.h: what a driver's offsets count from."""

_MARK = b"xpumeter: numbers follow"  # a multiple of four, as the numbers are

_PROGRAM = """\
#include <linux/ioctl.h>
#include <{header}>
struct {{ char mark[{size}]; unsigned int numbers[{count}]; }} said = {{ "{mark}", {{ {names} }} }};
"""


def compiler(environ: Mapping[str, str] = os.environ) -> str:
    """The host's C compiler: $CC, or the first of cc, gcc and clang. HostError if there is none."""
    for name in (environ.get("CC"), "cc", "gcc", "clang"):
        if name and (found := shutil.which(name)):
            return found
    raise HostError("no C compiler here: none of cc, gcc, clang", hint="install one, or set CC")


def numbers(calls: Iterable[Call], folders: Sequence[Path]) -> dict[str, tuple[int, int]]:
    """Type byte and call number of each call's macro, by name, as its header has it.

    Only the headers in `folders` are asked, include folders such as /usr/include; what a header
    includes may come from elsewhere. A call is left out where `folders` have no such header, or the
    header no such name. A macro that is no request but an offset, as vmwgfx has them, is of DRM's
    type.

    Raises:
        HostError: There is no compiler, or a header does not compile.
    """
    by_header: dict[str, list[str]] = {}
    for call in calls:
        if any((folder / call.header).is_file() for folder in folders):
            by_header.setdefault(call.header, []).append(call.name)
    found: dict[str, tuple[int, int]] = {}
    for header, names in by_header.items():
        for name, request in _requests(header, names, folders).items():
            is_offset = request < 0x100
            found[name] = (
                DRM_TYPE if is_offset else request >> 8 & 0xFF,
                _COMMAND_BASE + request if is_offset else request & 0xFF,
            )
    return found


def _requests(header: str, names: Sequence[str], folders: Sequence[Path]) -> dict[str, int]:
    # Some headers define requests as members of an enum, where #ifdef sees nothing: so the names
    # are looked for in what the preprocessor leaves (comments gone, macros with -dD).
    text = _compile(["-E", "-dD"], f"#include <{header}>\n", header, folders).decode()
    words = set(re.findall(r"\w+", text))
    there = [name for name in names if name in words]
    if not there:
        return {}
    program = _PROGRAM.format(
        header=header,
        size=len(_MARK),
        mark=_MARK.decode(),
        count=len(there),
        names=", ".join(there),
    )
    binary = _compile(["-c"], program, header, folders)
    at = binary.index(_MARK) + len(_MARK)
    return dict(zip(there, struct.unpack_from(f"={len(there)}I", binary, at), strict=True))


def _compile(mode: Sequence[str], program: str, header: str, folders: Sequence[Path]) -> bytes:
    """What the compiler makes of a program."""
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "made"
        where = [word for folder in folders for word in ("-I", str(folder.absolute()))]
        argv = [compiler(), "-x", "c", "-w", "-fno-lto", *mode, *where, "-o", str(made), "-"]
        in_english = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(
            argv, input=program.encode(), capture_output=True, check=False, env=in_english
        )
        if done.returncode:
            errors = done.stderr.decode(errors="replace")
            said = [line for line in errors.splitlines() if "error" in line] or [errors]
            raise HostError(
                f"{header} does not compile: {said[0].strip()}",
                hint=f"what it includes may be missing in {', '.join(map(str, folders))}",
            )
        return made.read_bytes()
