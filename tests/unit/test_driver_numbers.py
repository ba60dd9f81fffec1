# SPDX-License-Identifier: Apache-2.0
"""Every number of every driver table is the one in the kernel's own headers, old and new."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.cache import Cache, cache_root
from lab.errors import LabError
from lab.headers import Headers, every_version
from lab.require import require
from xpumeter import drivers
from xpumeter.drivers import headers
from xpumeter.errors import HostError
from xpumeter.model.calls import Call, Kind

pytestmark = pytest.mark.layout

UNCHECKED = {"nvidia-drm", "rknpu"}
"""Drivers whose header is in no package: their tables say so."""


@pytest.fixture(scope="module")
def versions() -> tuple[Headers, ...]:
    """Headers of every version that can be had here."""
    try:
        headers.compiler()
        found = every_version(Cache(cache_root()))
    except (LabError, HostError, OSError) as error:
        require("layout", False, str(error))
        raise
    require("layout", len(found) >= 2, "headers of fewer than two versions can be had here")
    return found


def shipped(*, checked: bool) -> Iterator[Call]:
    """Calls of the tables whose header can be had, or cannot."""
    tables = drivers.load()
    for table in (tables.core, *tables.by_driver.values()):
        if (table.header_unchecked is None) is checked:
            yield from (call for call in table.calls if call.core is (table is tables.core))


def test_numbers_are_those_of_the_headers(versions: tuple[Headers, ...]) -> None:
    """Each macro has DRM's type and the row's number in every version that has it, and some has."""
    calls = {call.name: call for call in shipped(checked=True)}
    right = {name: (headers.DRM_TYPE, call.nr) for name, call in calls.items()}
    seen: set[str] = set()

    for version in versions:
        said = headers.numbers(calls.values(), version.folders)
        print(f"{version.name}: {len(said)} of {len(calls)} macros")
        assert said == {name: right[name] for name in said}, version.name
        seen |= said.keys()

    assert calls.keys() - seen == set(), "in no header of any version"
    assert len(calls) >= 150


def test_numbers_are_compared_with_an_old_kernel_and_a_new_one(
    versions: tuple[Headers, ...],
) -> None:
    """Two releases of Linux at least, one of them as new as the newest driver of the tables."""
    linux = [
        tuple(map(int, found.groups()))
        for version in versions
        if (found := re.fullmatch(r"Linux (\d+)\.(\d+)", version.name))
    ]

    assert len(set(linux)) >= 2
    assert max(linux) >= (6, 19)


def test_what_cannot_be_compared_is_known_and_says_why() -> None:
    """A table is left out of the comparison by its own word only, and these are all."""
    tables = drivers.load().by_driver

    assert {name for name, each in tables.items() if each.header_unchecked} == UNCHECKED
    assert all("numbers read in" in (tables[name].header_unchecked or "") for name in UNCHECKED)
    assert list(shipped(checked=False))


def test_a_wrong_number_would_be_seen(versions: tuple[Headers, ...]) -> None:
    """A number is told as the header has it, and a macro that is none is not."""
    table = drivers.load().by_driver["xe"]
    calls = [call for call in table.calls if not call.core]
    slip = replace(calls[0], name="DRM_IOCTL_XE_EXECUTE")

    said = headers.numbers([*calls, slip], versions[-1].folders)

    assert said["DRM_IOCTL_XE_EXEC"] == (headers.DRM_TYPE, 0x49) != (headers.DRM_TYPE, 0x09)
    assert "DRM_IOCTL_XE_EXECUTE" not in said


def header(folder: Path, text: str) -> Call:
    """A call whose macro is RUN, and a header with this text."""
    (folder / "drm").mkdir()
    (folder / "drm/toy_drm.h").write_text(text)
    return Call("RUN", 0x40, Kind.SUBMIT, "drm/toy_drm.h")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#define RUN 0x40086443", {"RUN": (0x64, 0x43)}),
        ("enum { RUN = 0x40086443 };", {"RUN": (0x64, 0x43)}),
        ("#define RUN 12", {"RUN": (0x64, 0x4C)}),
        ("#define RUN _IOW('H', 3, int)", {"RUN": (ord("H"), 3)}),
        ("/* RUN */ // RUN\n#define RUNNER 1", {}),
        ("#if 0\n#define RUN 1\n#endif", {}),
    ],
)
def test_a_header_is_read_as_a_compiler_reads_it(
    tmp_path: Path, text: str, said: dict[str, tuple[int, int]]
) -> None:
    """Macros, members of an enum, plain offsets; not comments, and not what is left out."""
    assert headers.numbers([header(tmp_path, text)], [tmp_path]) == said


def test_a_header_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    """The host's own headers do not stand in for those of the folder."""
    assert headers.numbers([header(tmp_path, "#define RUN 1")], [tmp_path / "drm"]) == {}


def test_a_header_that_does_not_compile_is_an_error(tmp_path: Path) -> None:
    """With the compiler's first word on it, and where it was looked for."""
    call = header(tmp_path, '#include "gone.h"\n#define RUN 1')

    with pytest.raises(HostError, match=r"drm/toy_drm\.h does not compile: .*gone\.h") as caught:
        headers.numbers([call], [tmp_path])

    assert str(tmp_path) in caught.value.hint


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line, and what to do."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(HostError, match="no C compiler here: none of cc, gcc, clang") as caught:
        headers.compiler({})

    assert caught.value.hint == "install one, or set CC"
