# SPDX-License-Identifier: Apache-2.0
"""Calls that the kernel left out: known where programs may be opened, else not told at all."""

import os
from pathlib import Path

import pytest

from xpumeter.errors import HostError
from xpumeter.source import libbpf
from xpumeter.source.misses import Misses


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    for name in ("prog_entry_stub", "prog_return_stub", "map_rows", "link_entry_stub", "rows"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize("refusal", [PermissionError(1, "bpf"), HostError("no libbpf")])
def test_where_it_is_refused_nothing_is_known(
    pins: Path, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    """bpf(2) refused, or no libbpf: empty, not 0."""

    def refuse(_path: Path) -> int:
        raise refusal

    monkeypatch.setattr(libbpf, "open_pin", refuse)

    assert Misses(pins).read() == {}


def test_programs_are_held_open_and_nothing_else(
    pins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that tells no misses (before 5.12; here a plain file): nobody knows."""
    opened: dict[str, int] = {}

    def open_plain(path: Path) -> int:
        opened[path.name] = os.open(path, os.O_RDONLY)
        return opened[path.name]

    monkeypatch.setattr(libbpf, "open_pin", open_plain)
    misses = Misses(pins)

    assert opened.keys() == {"prog_entry_stub", "prog_return_stub"}
    assert misses.read() == {}
    misses.close()
    for fd in opened.values():
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
