# SPDX-License-Identifier: Apache-2.0
"""What is pinned is read if it is ours, and refused in one line if it is not."""

from pathlib import Path

import pytest

from unit.pinned import pin
from xpumeter.errors import NotAttached
from xpumeter.model.kernel import CgroupId, DeviceTotal, Incarnation, OpenCall, Row
from xpumeter.source.pins import Pins

ROW = Row(CgroupId(5), Incarnation(1), 0x42, 0, calls=3, time_ns=30, first_boot_ns=1)
CALL = OpenCall(CgroupId(6), Incarnation(1), 0x48, start_ns=9, tid=70)
TOTAL = DeviceTotal(Incarnation(1), 3, 0, 0)


def test_a_reading_has_the_rows_between_two_totals(tmp_path: Path) -> None:
    """All that the kernel counted, in the order that makes it comparable."""
    pins = Pins(pin(tmp_path / "x", rows=[ROW], totals=[TOTAL], calls=[CALL]))

    reading = pins.read()

    assert reading.rows == (ROW,)
    assert reading.open == (CALL,)
    assert reading.totals_before == reading.totals == (TOTAL,)
    assert pins.hook == "fexit"


def test_nothing_attached(tmp_path: Path) -> None:
    """The message says what to do."""
    with pytest.raises(NotAttached, match=r"nothing is attached at .*/x") as raised:
        Pins(tmp_path / "x")
    assert raised.value.hint == "run `xpumeter attach` as root"


def test_pins_of_another_layout_are_not_read(tmp_path: Path) -> None:
    """Bytes of another layout would be numbers without meaning."""
    with pytest.raises(NotAttached, match=r"x has layout 99, this version reads 1$"):
        Pins(pin(tmp_path / "x", version=99))


def test_pins_that_were_attached_anew_are_other_counts(tmp_path: Path) -> None:
    """A series must not go on with the counts of another attach."""
    pins = Pins(pin(tmp_path / "x", rows=[ROW], totals=[TOTAL], calls=[CALL]))
    pin(tmp_path / "x", attach_id=b"b" * 16)

    with pytest.raises(NotAttached, match="was attached anew"):
        pins.read()


def test_pins_that_went_away(tmp_path: Path) -> None:
    """Detached under a running agent."""
    pins = Pins(pin(tmp_path / "x"))
    (tmp_path / "x/rows").unlink()

    with pytest.raises(NotAttached, match="rows cannot be read: No such file or directory"):
        pins.read()
