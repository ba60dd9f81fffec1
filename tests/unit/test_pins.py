# SPDX-License-Identifier: Apache-2.0
"""What is pinned is read if it is ours, and refused in one line if it is not."""

from pathlib import Path

import pytest

from unit.pinned import pin
from xpumeter.errors import NotAttached
from xpumeter.model.kernel import CgroupId, DeviceTotal, Incarnation, OpenCall, Row
from xpumeter.source import hooks
from xpumeter.source.pins import Pins

ROW = Row(CgroupId(5), Incarnation(1), 0x42, 0, calls=3, time_ns=30, first_boot_ns=1)
TOTAL = DeviceTotal(Incarnation(1), 3, 0, 0)


def test_a_reading_has_the_rows_between_two_totals(tmp_path: Path) -> None:
    """All that the kernel counted, in the order that makes it comparable."""
    pins = Pins(pin(tmp_path / "x", rows=[ROW], totals=[TOTAL]))

    reading = pins.read()

    assert reading.rows == (ROW,)
    assert reading.totals_before == reading.totals == (TOTAL,)
    assert pins.hook == "fexit"


def test_nothing_attached(tmp_path: Path) -> None:
    """The message says what to do."""
    with pytest.raises(NotAttached, match=r"nothing is attached at .*/x") as raised:
        Pins(tmp_path / "x")
    assert raised.value.hint == "run `xpumeter attach` as root"


def test_pins_of_another_layout_are_not_read(tmp_path: Path) -> None:
    """Bytes of another layout would be numbers without meaning."""
    with pytest.raises(NotAttached, match=r"x has layout 99, this version reads 2$"):
        Pins(pin(tmp_path / "x", version=99))


def test_pins_that_were_attached_anew_are_other_counts(tmp_path: Path) -> None:
    """A series must not go on with the counts of another attach."""
    pins = Pins(pin(tmp_path / "x", rows=[ROW], totals=[TOTAL]))
    pin(tmp_path / "x", attach_id=b"b" * 16)

    with pytest.raises(NotAttached, match="was attached anew"):
        pins.read()
    with pytest.raises(NotAttached, match="was attached anew"):
        pins.retire()


def test_pins_that_went_away(tmp_path: Path) -> None:
    """Detached under a running agent."""
    pins = Pins(pin(tmp_path / "x"))
    (tmp_path / "x/totals").unlink()

    with pytest.raises(NotAttached, match="totals cannot be read: No such file or directory"):
        pins.read()


def test_a_reading_has_the_calls_that_are_open(tmp_path: Path) -> None:
    """With the thread's own number, of which the kernel's key is only the lower half."""
    waiting = OpenCall(CgroupId(5), Incarnation(1), 0xC3, start_ns=70, tid=4_000_000)

    assert Pins(pin(tmp_path / "x", open_calls=[waiting])).read().open == (waiting,)


def test_rows_that_are_offered_are_retired(tmp_path: Path) -> None:
    """What is deleted by reading is what a reading has said before."""
    gone = ROW._replace(cgroup_id=CgroupId(6), offered=True)
    pins = Pins(pin(tmp_path / "x", rows=[ROW, gone]))

    assert pins.read().rows == (ROW, gone)
    assert pins.retire() == (1, 0)


def test_another_user_s_agent_is_offered_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts all the same, and nothing is retired."""
    pins = Pins(pin(tmp_path / "x", rows=[ROW._replace(offered=True)]))
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name in hooks.RETIRERS:
            raise PermissionError(13, "Permission denied")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)

    assert pins.read().rows == (ROW,)
    assert pins.retire() is None
