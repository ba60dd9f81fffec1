# SPDX-License-Identifier: Apache-2.0
"""Every number of every driver table is the one in the kernel's own header."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cache import Cache, cache_root
from lab.errors import LabError
from lab.headers import include_folders
from lab.require import require
from xpumeter import drivers
from xpumeter.model.calls import Call

pytestmark = pytest.mark.layout

DRM_TYPE = ord("d")

NOT_CHECKED_HERE = {
    "DRM_IOCTL_IVPU_CMDQ_SUBMIT": 0x4D,
    "DRM_IOCTL_IVPU_BO_CREATE_FROM_USERPTR": 0x4E,
}
"""What headers of Linux 6.12 do not have yet; as those of 7.2.13 printed it."""


@pytest.fixture(scope="module")
def includes() -> tuple[Path, ...]:
    """Folders with the newest headers that can be had here."""
    require("layout", bool(_compiler() and shutil.which("apt-get")), "no C compiler, or no apt-get")
    try:
        return include_folders(Cache(cache_root()))
    except LabError as error:
        require("layout", False, str(error))
        raise


def _compiler() -> str | None:
    return shutil.which("cc") or shutil.which("clang")


def _calls() -> Iterator[Call]:
    tables = drivers.load()
    yield from tables.core.calls
    for table in tables.by_driver.values():
        yield from (call for call in table.calls if call not in tables.core.calls)


def _printed(calls: list[Call], folders: tuple[Path, ...], scratch: Path) -> dict[str, str]:
    """Type and number of each macro that its header defines, as a compiled program prints them."""
    printed: dict[str, str] = {}
    for header in sorted({call.header for call in calls}):
        lines = [f"#include <{header}>", "#include <stdio.h>", "int main(void) {"]
        for name in (call.name for call in calls if call.header == header):
            show = f'printf("{name} %u %u\\n", _IOC_TYPE({name}), _IOC_NR({name}));'
            lines += [f"#ifdef {name}", show, "#endif"]
        source = scratch / "numbers.c"
        source.write_text("\n".join([*lines, "return 0; }", ""]))
        options = [word for folder in folders for word in ("-I", str(folder))]
        program = scratch / "numbers"
        subprocess.run([_compiler() or "cc", *options, "-o", program, source], check=True)
        output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        printed |= {line.split()[0]: line for line in output.splitlines()}
    return printed


def test_numbers_are_those_of_the_headers(includes: tuple[Path, ...], tmp_path: Path) -> None:
    """Each macro exists in the header that its row names, with DRM's type and the row's number."""
    calls = list(_calls())

    printed = _printed(calls, includes, tmp_path)

    missing = {call.name: call.nr for call in calls if call.name not in printed}
    print("not checked here:", ", ".join(missing) or "nothing")
    assert missing.items() <= NOT_CHECKED_HERE.items()
    assert printed == {
        call.name: f"{call.name} {DRM_TYPE} {call.nr}" for call in calls if call.name not in missing
    }
    assert len(printed) >= 30, "the headers define hardly any of the macros"
