# SPDX-License-Identifier: Apache-2.0
"""The bytes of bpf/xpumeter.h are the bytes that layout.py mirrors."""

import json
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.require import require
from xpumeter import data_files
from xpumeter.model import calls
from xpumeter.source import hooks, layout

pytestmark = pytest.mark.layout

HEADER = Path(__file__).parents[2] / "bpf/xpumeter.h"


def bpftool() -> str:
    """Debian puts it in /usr/sbin, which a user's PATH leaves out."""
    return shutil.which("bpftool", path="/usr/sbin:/sbin:/usr/bin") or ""


@pytest.fixture(scope="module")
def types() -> list[dict[str, Any]]:
    """All types in the object's own type information."""
    require("layout", bool(bpftool()), "bpftool is not installed")
    dump = subprocess.run(
        [bpftool(), "--json", "btf", "dump", "file", data_files.find("xpumeter.bpf.o")],
        check=True,
        capture_output=True,
    )
    found: list[dict[str, Any]] = json.loads(dump.stdout)["types"]
    return found


@pytest.mark.parametrize("mirror", layout.STRUCTS, ids=lambda mirror: mirror.name)
def test_layout_matches_the_object(types: list[dict[str, Any]], mirror: layout.Struct) -> None:
    """Same size; same members at the same offsets, in the same order."""
    (kernel,) = (t for t in types if t["kind"] == "STRUCT" and t["name"] == mirror.name)

    offset, members = 0, []
    for name, code in mirror.members:
        members.append((name, offset))
        offset += struct.calcsize("=" + code)
    assert offset == kernel["size"]
    assert members == [(m["name"], m["bits_offset"] // 8) for m in kernel["members"]]


def test_every_map_and_reader_is_in_the_object(types: list[dict[str, Any]]) -> None:
    """The registry names what the object has: all its maps, and a reader for each it reads."""
    variables = {t["name"] for t in types if t["kind"] == "VAR"}
    functions = {t["name"] for t in types if t["kind"] == "FUNC"}

    assert variables - {"LICENSE"} >= set(hooks.MAPS)
    assert functions >= {f"read_{name}" for name in hooks.READERS} | hooks.RETIRERS.keys()
    assert set(hooks.RETIRERS.values()) <= set(hooks.MAPS)
    for plan in hooks.PLANS:
        assert functions >= plan.programs


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("XPUMETER_LAYOUT", layout.LAYOUT),
        ("XPUMETER_ROWS", layout.ROW_LIMIT),
        ("XPUMETER_NR_FOREIGN", calls.NR_FOREIGN),
        ("XPUMETER_NR_OVERFLOW", calls.NR_OVERFLOW),
        ("XPUMETER_UNSEEN", calls.ERROR_UNSEEN),
        ("XPUMETER_CGROUP_V2", layout.Hierarchy.V2),
        ("XPUMETER_CGROUP_PIDS", layout.Hierarchy.PIDS),
        ("XPUMETER_CGROUP_MEMORY", layout.Hierarchy.MEMORY),
        ("XPUMETER_CGROUP_V1", layout.Hierarchy.V1),
    ],
)
def test_constants_are_the_header_s(name: str, here: int) -> None:
    """A number that stands in both languages is one number."""
    found = re.search(rf"^#define {name}\s+(\w+)", HEADER.read_text(), re.MULTILINE)

    assert found is not None
    assert int(found[1], 0) == here
