# SPDX-License-Identifier: Apache-2.0
"""A changed driver table counts from its load on; what was counted before keeps its kind."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpumeter.enrich.kind_history import changed, cut, with_kinds_before
from xpumeter.kind_keeper import KindKeeper
from xpumeter.model.calls import Kind
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.kernel import CgroupId, Incarnation, Losses, Reading, Row, RowKey
from xpumeter.model.kinds import Before, KindHistory
from xpumeter.source.kinds_file import KindsFile

GPU, OTHER_GPU = Incarnation(1), Incarnation(2)
POD = CgroupId(7)
ROW = Row(POD, GPU, nr=0x41, error=0, calls=10, time_ns=100, first_boot_ns=5)
LATER = ROW._replace(calls=14, time_ns=150)


def device(kinds: Mapping[int, Kind], driver: str = "toy") -> KnownDevice:
    """A device of a driver with these kinds."""
    known = KnownDevice(DeviceId("d"), driver, None, None, None, None, None, kinds)
    return with_kinds_before(known)


def first(kinds: Mapping[int, Kind], rows: Iterable[Row] = (ROW,)) -> KindHistory:
    """The history of the first agent of all."""
    return changed(KindHistory(), rows, {GPU: device(kinds)}, boot_ns=50)


def counted(
    history: KindHistory, rows: Iterable[Row], known: KnownDevice
) -> dict[Kind, tuple[int, int, int]]:
    """Calls, time and first call, by kind."""
    sums: dict[Kind, tuple[int, int, int]] = {}
    for row in cut(history, rows):
        kind = known.kinds.get(row.nr, Kind.OTHER)
        calls, time_ns, began = sums.get(kind, (0, 0, row.first_boot_ns))
        sums[kind] = calls + row.calls, time_ns + row.time_ns, min(began, row.first_boot_ns)
    return sums


def test_the_first_table_counts_all_that_was_called_before() -> None:
    """Calls that nobody has exported yet have no kind to keep."""
    history = first({0x41: Kind.WAIT})

    assert history.rows == {}
    assert cut(history, [ROW]) == (ROW,)


def test_a_table_that_did_not_change_changes_nothing() -> None:
    """The same history, so that nothing is written."""
    history = first({0x41: Kind.WAIT})

    again = changed(history, [LATER], {GPU: device({0x41: Kind.WAIT})}, boot_ns=90)

    assert again is history


def test_what_was_counted_before_keeps_its_kind() -> None:
    """Ten calls were `other`; with the table that says `wait` only those that come are waits."""
    wait = device({0x41: Kind.WAIT})
    history = changed(first({}), [ROW], {GPU: wait}, boot_ns=60)

    assert counted(history, [ROW], wait) == {Kind.OTHER: (10, 100, 5)}
    assert counted(history, [LATER], wait) == {Kind.OTHER: (10, 100, 5), Kind.WAIT: (4, 50, 60)}


def test_a_kind_that_comes_back_goes_on() -> None:
    """Corrected, and corrected back: three stretches, two series, each call once."""
    wait, alloc = device({0x41: Kind.WAIT}), device({0x41: Kind.ALLOC})
    history = first({0x41: Kind.WAIT})
    history = changed(history, [ROW], {GPU: alloc}, boot_ns=60)
    history = changed(history, [LATER], {GPU: wait}, boot_ns=70)
    latest = LATER._replace(calls=20, time_ns=200)

    assert counted(history, [latest], wait) == {Kind.WAIT: (16, 150, 5), Kind.ALLOC: (4, 50, 60)}


def test_only_the_calls_that_changed_are_cut() -> None:
    """Other numbers, other drivers, and devices that nobody knows stay whole."""
    submit = ROW._replace(nr=0x40)
    elsewhere = ROW._replace(device=OTHER_GPU)
    unknown = ROW._replace(device=Incarnation(0))
    rows = [submit, elsewhere, unknown]
    old = {
        GPU: device({0x40: Kind.SUBMIT}),
        OTHER_GPU: device({0x41: Kind.WAIT}, "other"),
    }
    new = {**old, GPU: device({0x40: Kind.SUBMIT, 0x41: Kind.FREE})}
    history = changed(KindHistory(), rows, old, boot_ns=50)

    history = changed(history, [*rows, ROW], new, boot_ns=60)

    assert list(history.rows) == [RowKey(POD, GPU, 0x41, 0)]
    assert cut(history, rows) == tuple(rows)


def test_a_row_that_was_made_anew_has_no_past() -> None:
    """Deleted and opened again by a late call: it begins later, or holds less."""
    wait = device({0x41: Kind.WAIT})
    history = changed(first({}), [ROW], {GPU: wait}, boot_ns=60)
    anew = ROW._replace(calls=11, first_boot_ns=61)
    less = ROW._replace(calls=9)

    assert cut(history, [anew, less]) == (anew, less)


def test_a_past_goes_with_its_row() -> None:
    """What is not there at the next change is forgotten: the file stays small."""
    history = changed(first({}), [ROW], {GPU: device({0x41: Kind.WAIT})}, boot_ns=60)

    history = changed(history, [], {GPU: device({})}, boot_ns=70)

    assert history.rows == {}


KINDS = st.dictionaries(st.integers(0x40, 0x43), st.sampled_from(Kind))
CALLS = st.lists(st.tuples(st.integers(0x40, 0x43), st.integers(1, 5)), max_size=4)


@given(st.lists(st.tuples(KINDS, CALLS, CALLS), min_size=1, max_size=6))
def test_no_history_of_tables_moves_a_call(
    agents: list[tuple[dict[int, Kind], list[tuple[int, int]], list[tuple[int, int]]]],
) -> None:
    """One agent after another, each with its own table; calls while it runs and while none does.

    Those go to the kind of the table that was loaded last. None is lost, counted twice, or moved.
    """
    rows: dict[int, Row] = {}
    history = KindHistory()
    expected: Counter[Kind] = Counter()
    now = 0

    def call(nr: int, times: int) -> None:
        so_far = rows.get(nr, Row(POD, GPU, nr, 0, 0, 0, now))
        rows[nr] = so_far._replace(calls=so_far.calls + times, time_ns=so_far.time_ns + times)

    for table, running, down in agents:
        now += 1
        history = changed(history, rows.values(), {GPU: device(table)}, boot_ns=now)
        for nr, times in [*running, *down]:
            now += 1
            call(nr, times)
            expected[table.get(nr, Kind.OTHER)] += times
        got = counted(history, rows.values(), device(table))
        assert {kind: calls for kind, (calls, _, _) in got.items()} == dict(+expected)
        keys = [
            RowKey(row.cgroup_id, row.device, row.nr, row.error)
            for row in cut(history, rows.values())
        ]
        assert len(set(keys)) == len(keys)


def reading(*rows: Row) -> Reading:
    """A reading with these rows and nothing else."""
    return Reading((), rows, (), Losses())


def test_the_next_agent_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    """The history is in a file: a third agent with the second one's table cuts as that one did."""
    old, new = {GPU: device({})}, {GPU: device({0x41: Kind.WAIT})}

    KindKeeper(KindsFile(tmp_path / "state", b"x")).keep(reading(ROW), old, boot_ns=50)
    second = KindKeeper(KindsFile(tmp_path / "state", b"x"))
    seen = second.keep(reading(ROW), new, boot_ns=60)
    third = KindKeeper(KindsFile(tmp_path / "state", b"x"))
    later = third.keep(reading(LATER), new, boot_ns=70)

    assert [(row.calls, row.first_boot_ns) for row in seen.rows] == [(10, 5)]
    assert [(row.calls, row.first_boot_ns) for row in later.rows] == [(10, 5), (4, 60)]
    kinds = [new[GPU].kinds.get(row.nr) for row in later.rows]
    assert kinds == [Kind.OTHER, Kind.WAIT]


def test_other_counts_have_no_past(tmp_path: Path) -> None:
    """After a reboot or a detach the rows are others."""
    history = KindHistory(
        {"toy": {0x41: Kind.WAIT}},
        {RowKey(POD, GPU, 0x41, 0): (Before(Kind.WAIT, 10, 100, 60),)},
    )
    KindsFile(tmp_path, b"x").save(history)

    assert KindsFile(tmp_path, b"x").load() == history
    assert KindsFile(tmp_path, b"y").load() == KindHistory()
    assert KindsFile(tmp_path / "none", b"x").load() == KindHistory()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"attach_id": "78"}',
        '{"attach_id": "78", "drivers": {"a": {"x": "wait"}}, "rows": []}',
        '{"attach_id": "78", "drivers": {"a": {"1": "idle"}}, "rows": []}',
        '{"attach_id": "78", "drivers": {}, "rows": [[1, 2, 3]]}',
        '{"attach_id": "78", "drivers": [], "rows": []}',
    ],
)
def test_a_file_that_makes_no_sense_is_counted_and_passed_over(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent starts; what it counted before may move to another kind then."""
    (tmp_path / "kinds.json").write_text(text)
    file = KindsFile(tmp_path, b"x")

    assert file.load() == KindHistory()
    assert file.bad_records == 1
    assert "event=kinds_unreadable" in caplog.text


def test_a_file_that_cannot_be_written_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And what that means for the next agent."""
    (tmp_path / "state").touch()

    KindsFile(tmp_path / "state", b"x").save(KindHistory())

    assert caplog.messages[0].startswith("event=kinds_unwritable file=")
    assert "moves old calls to their new kinds" in caplog.messages[0]


def test_a_history_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    """A full disk has room again; until then each reading tries."""

    class Full(KindsFile):
        full = True

        def save(self, history: KindHistory) -> bool:
            return not self.full and super().save(history)

    card = device({0x41: Kind.SUBMIT})
    file = Full(tmp_path, b"a")
    keeper = KindKeeper(file)
    reading = Reading((), (ROW,), (), Losses())
    keeper.keep(reading, {GPU: card}, boot_ns=100)
    assert KindsFile(tmp_path, b"a").load() == KindHistory()

    file.full = False
    keeper.keep(reading, {GPU: card}, boot_ns=200)
    assert KindsFile(tmp_path, b"a").load().drivers.keys() == {card.driver}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"attach_id": "61", "rows": [[Infinity]]}'])
def test_a_file_of_nonsense_is_none(tmp_path: Path, text: str) -> None:
    """However deep, however large: it is counted, and the agent starts."""
    (tmp_path / "kinds.json").write_text(text)

    file = KindsFile(tmp_path, b"a")

    assert (file.load(), file.bad_records) == (KindHistory(), 1)
