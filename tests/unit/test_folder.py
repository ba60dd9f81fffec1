# SPDX-License-Identifier: Apache-2.0
"""Nobody sees half of the pins, and what a killed process left does not stand in the way."""

import os
from pathlib import Path

import pytest

from unit.pinned import pin
from xpumeter.errors import HostError
from xpumeter.source import folder


def test_pins_appear_as_a_whole(tmp_path: Path) -> None:
    """Under their name there is nothing before there is everything."""
    pins = tmp_path / "x"
    with folder.building(pins) as place:
        (place / "rows").touch()
        assert not pins.exists()

    assert [each.name for each in pins.iterdir()] == ["rows"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_fails_or_is_interrupted_leaves_nothing(
    tmp_path: Path, error: type[BaseException]
) -> None:
    """Ctrl-C between two pins too: a pinned link would count for ever."""

    def attach() -> None:
        with folder.building(tmp_path / "x") as place:
            (place / "link_entry_stub").touch()
            raise error

    with pytest.raises(error):
        attach()

    assert list(tmp_path.iterdir()) == []


def test_others_may_enter_whatever_the_umask(tmp_path: Path) -> None:
    """The readers are for everybody who is let in."""
    before = os.umask(0o077)
    try:
        with folder.building(tmp_path / "x"):
            pass
    finally:
        os.umask(before)

    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o755


def test_what_was_left_behind_is_removed_with_the_rest(tmp_path: Path) -> None:
    """An attach that was killed, a detach that was killed, and the pins themselves."""
    pins = pin(tmp_path / "x")
    (tmp_path / "x_new").mkdir()
    (tmp_path / "x_new/link_entry_stub").touch()
    (tmp_path / "x_old").mkdir()
    (tmp_path / "x_old/map_rows").touch()
    (tmp_path / "xy").mkdir()

    removed = folder.remove(pins)

    assert {"link_entry_stub", "map_rows", "meta", "rows"} <= set(removed)
    assert [each.name for each in tmp_path.iterdir()] == ["xy"]
    assert folder.remove(pins) == []


@pytest.mark.parametrize("place", ["x", "x_new", "x_old"])
def test_what_others_pinned_is_not_touched(tmp_path: Path, place: str) -> None:
    """A configuration that names a folder of somebody else must cost nobody anything."""
    pins = pin(tmp_path / "x")
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / "cilium_calls").touch()

    with pytest.raises(HostError, match=f"{place}/cilium_calls is not of xpumeter"):
        folder.remove(pins)

    assert (tmp_path / place / "cilium_calls").exists()
    assert (pins / "meta").exists()


def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    """With the command that makes it."""
    with (
        pytest.raises(HostError, match="a cannot be opened: No such file or directory") as raised,
        folder.locked(tmp_path / "a/b"),
    ):
        pass
    assert raised.value.hint == f"mkdir -p {tmp_path}/a"
