# SPDX-License-Identifier: Apache-2.0
"""What rows had that are gone outlives the agent, whole or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpumeter.model.calls import Kind, Reason
from xpumeter.model.kernel import CgroupId, Incarnation, RowKey
from xpumeter.model.owners import Identity
from xpumeter.model.past import Past, Pending, Sum
from xpumeter.source.journal import Journal

COUNTS = st.integers(0, 2**64 - 1)
DEVICES = st.integers(0, 255).map(Incarnation)
SUMS = st.builds(Sum, COUNTS, COUNTS, COUNTS)
NAMES = st.none() | st.text()
IDENTITIES = st.none() | st.builds(Identity, st.text(), NAMES, NAMES)
RESULTS = st.tuples(st.sampled_from(Kind), st.integers(0, 0xFFFF))
PASTS = st.builds(
    Past,
    pending=st.lists(
        st.builds(
            Pending,
            st.builds(RowKey, COUNTS.map(CgroupId), DEVICES, st.integers(0, 0x101), COUNTS),
            IDENTITIES,
            RESULTS,
            SUMS,
            SUMS,
        )
    ).map(tuple),
    settled=st.dictionaries(
        IDENTITIES,
        st.dictionaries(DEVICES, st.dictionaries(RESULTS, SUMS, min_size=1), min_size=1),
    ),
    ended=st.dictionaries(DEVICES, COUNTS),
    unattributed=st.dictionaries(st.tuples(DEVICES, st.sampled_from(Reason)), SUMS),
)
PAST = Past(
    pending=(
        Pending(
            RowKey(CgroupId(9), Incarnation(1), 0x49, 12),
            Identity("", "uid", "c" * 64),
            (Kind.SUBMIT, 12),
            Sum(7, 70, 5),
            Sum(9, 90, 4),
        ),
    ),
    settled={Identity("/x.service"): {Incarnation(1): {(Kind.WAIT, 0): Sum(3, 30, 4)}}},
    ended={Incarnation(1): 11},
    unattributed={(Incarnation(2), Reason.UNDELIVERED): Sum(2, 20, 3)},
)


@given(PASTS)
def test_the_next_agent_has_what_the_last_one_wrote(
    tmp_path_factory: pytest.TempPathFactory, past: Past
) -> None:
    """Every member, and the order in which callers were settled."""
    folder = tmp_path_factory.mktemp("state")
    assert Journal(folder, b"x").save(past)

    loaded = Journal(folder, b"x").load()

    assert loaded == past
    assert list(loaded.settled) == list(past.settled)


def test_other_counts_begin_without_a_past(tmp_path: Path) -> None:
    """After a reboot or a detach its rows were others'; nothing is said about it."""
    Journal(tmp_path / "state", b"x").save(PAST)
    journal = Journal(tmp_path / "state", b"y")

    assert journal.load() == Past()
    assert journal.bad_records == 0


def test_no_file_is_no_past(tmp_path: Path) -> None:
    """The first agent of an attach."""
    journal = Journal(tmp_path, b"x")

    assert journal.load() == Past()
    assert journal.bad_records == 0


def test_a_place_that_cannot_be_written_is_one_line_and_no_promise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever would delete rows is told that they are not written down."""
    (tmp_path / "state").touch()
    journal = Journal(tmp_path / "state", b"x")

    assert not journal.save(PAST)
    assert not journal.save(PAST)

    (line,) = caplog.messages
    assert line.startswith(f"event=journal_unwritable file={tmp_path}/state/journal.json reason=")


def test_a_write_that_fails_leaves_the_last_one(tmp_path: Path) -> None:
    """Half a journal is not there, and what was there still is."""
    journal = Journal(tmp_path, b"x")
    journal.save(PAST)
    (tmp_path / "journal.new").mkdir()

    assert not journal.save(Past())
    assert Journal(tmp_path, b"x").load() == PAST


def spoiled(tmp_path: Path, member: str, value: Any) -> Journal:
    """A journal whose file has another value somewhere."""
    Journal(tmp_path, b"x").save(PAST)
    saved = json.loads((tmp_path / "journal.json").read_text())
    saved[member] = value
    (tmp_path / "journal.json").write_text(json.dumps(saved))
    return Journal(tmp_path, b"x")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("settled", [["/x", None, None, 1, "wait", 0, -3, 30, 4]]),
        ("settled", [["/x", None, None, 1, "walk", 0, 3, 30, 4]]),
        ("settled", [["/x", None, 7, 1, "wait", 0, 3, 30, 4]]),
        ("settled", [["/x", None, None, 1, "wait", 0, 3, 30]]),
        ("pending", [[9, 1, 73, 12, "", "uid"]]),
        ("pending", None),
        ("ended", [[1, 2.5]]),
        ("ended", [[1, True]]),
        ("unattributed", [[1, "bored", 1, 2, 3]]),
    ],
)
def test_a_damaged_file_is_passed_over_as_a_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, member: str, value: Any
) -> None:
    """Half of it would be wrong sums. It is counted, and one line says what is missing now."""
    journal = spoiled(tmp_path, member, value)

    assert journal.load() == Past()
    assert journal.bad_records == 1
    (line,) = caplog.messages
    assert line.startswith(f"event=journal_unreadable file={tmp_path}/journal.json reason=")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
MEMBERS = st.sampled_from(["attach_id", "pending", "settled", "ended", "unattributed"])


@given(JSON | st.binary() | st.dictionaries(MEMBERS, JSON))
def test_no_file_is_an_error(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    """Whatever is in it, the agent starts."""
    folder = tmp_path_factory.mktemp("state")
    if isinstance(content, dict):
        content["attach_id"] = b"x".hex()
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "journal.json").write_bytes(data)

    Journal(folder, b"x").load()
