# SPDX-License-Identifier: Apache-2.0
"""Names outlive the agent that learned them, and nothing else does."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpumeter.model.owners import ContainerRecord
from xpumeter.source.memory import Memory

MAIN = ContainerRecord("a" * 64, False, "main", "trainer-0", "ml", "uid-1")
SANDBOX = ContainerRecord("b" * 64, True, None, "trainer-0", "ml", "uid-1")
BOTH = {record.container_id: record for record in (MAIN, SANDBOX)}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_the_next_agent_knows_what_the_last_one_did(tmp_path: Path) -> None:
    """Every member of every record; the folder is made."""
    Memory(tmp_path / "state", b"x").save(BOTH)

    assert Memory(tmp_path / "state", b"x").load() == BOTH


def test_other_counts_begin_without_names(tmp_path: Path) -> None:
    """After a reboot or a detach the ids are those of others."""
    Memory(tmp_path, b"x").save(BOTH)

    assert Memory(tmp_path, b"y").load() == {}


def test_nothing_saved_is_nothing_known(tmp_path: Path) -> None:
    """The first agent of a host."""
    memory = Memory(tmp_path, b"x")

    assert memory.load() == {}
    assert memory.bad_records == 0


def test_a_place_that_cannot_be_written_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A read-only file system ends nothing; it is said once what that means."""
    (tmp_path / "state").touch()
    memory = Memory(tmp_path / "state", b"x")

    memory.save(BOTH)
    memory.save(BOTH)

    (line,) = caplog.messages
    assert line.startswith(f"event=memory_unwritable file={tmp_path}/state/containers.json reason=")


def test_a_record_that_is_none_is_counted_and_passed_over(tmp_path: Path) -> None:
    """The others are kept."""
    Memory(tmp_path, b"x").save(BOTH)
    saved = json.loads((tmp_path / "containers.json").read_text())
    saved["containers"] += [{"container_id": 7}, "x", {**saved["containers"][0], "sandbox": "no"}]
    (tmp_path / "containers.json").write_text(json.dumps(saved))
    memory = Memory(tmp_path, b"x")

    assert memory.load() == BOTH
    assert memory.bad_records == 3


@given(JSON | st.binary())
def test_no_file_is_an_error(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    """Whatever is in it."""
    folder = tmp_path_factory.mktemp("state")
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "containers.json").write_bytes(data)

    Memory(folder, b"x").load()
