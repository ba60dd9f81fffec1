# SPDX-License-Identifier: Apache-2.0
"""Rows are let go, and no sum changes by it: at every step, whenever the agent is killed."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from unit.backend import Backend
from unit.stages import LINGER_S, Stages
from unit.world import World
from xpumeter.enrich.leaving import SELECT_ALL, leaving
from xpumeter.enrich.past import let_go
from xpumeter.model.calls import Kind, Reason
from xpumeter.model.devices import DeviceId
from xpumeter.model.kernel import CgroupId, Incarnation
from xpumeter.model.owners import ContainerRecord, Identity, Owner
from xpumeter.model.past import Past, Settled, Sum
from xpumeter.model.selection import Selection
from xpumeter.model.series import Attribution, Tally, Usage
from xpumeter.source.journal import Journal

SUBMIT = 0x42


class Host:
    """A container that made 7 calls and is gone, and the agents that follow each other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = World()
        self.backend = Backend()
        self.cgroup, _ = self.world.create_container(0, known=True)
        self.key = (self.cgroup, 1, SUBMIT, 0)
        self.world.call(self.key, 7)
        self.start()

    def start(self) -> None:
        """Another agent, with what the last one left in its folder."""
        self.journal = Journal(self.folder, b"x")
        self.agent = Stages(
            self.world.kernel,
            self.world.devices,
            runtime=self.world,
            memory=None,
            journal=self.journal,
            clock=lambda: self.world.now_s,
        )
        self.delivered = 0

    def period(self, step_s: int = 10, *, arrives: bool = True) -> int | None:
        """One export; calls of the container as a Collector sees them, None if it does not."""
        self.world.now_s += step_s
        _, batch = self.agent.export(delivered=self.delivered)
        assert self.agent.difference == (0, 0)
        if arrives:
            self.delivered = batch.seq
            self.backend.take(batch.parts)
        self.agent.retire()
        found = [
            value for key, value in self.backend.arrived.items() if key[-2] == "xpumeter.calls"
        ]
        return sum(found) if found else None

    def ended(self) -> int:
        """Calls of series that are over."""
        return sum(Journal(self.folder, b"x").load().ended.values())


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """It has exported the calls, and the container is gone since."""
    host = Host(tmp_path)
    assert host.period() == 7
    host.world.remove(host.cgroup)
    return host


def test_a_row_of_the_dead_goes_and_its_calls_stay(host: Host) -> None:
    """The map is empty after one period; the series goes on to its end with all it had."""
    assert host.period() == 7
    assert host.world.kernel.rows == {}
    assert host.cgroup not in host.world.kernel.names

    assert host.period() == 7
    host.period(LINGER_S)
    host.period()
    assert host.period() is None
    assert host.ended() == 7
    assert host.agent.retiring.identities == frozenset()


class Killed(Exception):  # noqa: N818 (nothing is wrong)
    """The agent, at this instruction."""


def killed(*_: object) -> None:
    """What happens there."""
    raise Killed


def before_write(host: Host) -> None:
    host.journal.save = killed  # type: ignore[assignment]


def half_written(host: Host) -> None:
    def save(_past: Past) -> bool:
        (host.folder / "journal.new").write_text('{"attach_id": "78", "pend')
        raise Killed

    host.journal.save = save  # type: ignore[method-assign,assignment]


def before_retire(host: Host) -> None:
    host.agent.kernel.retire = killed  # type: ignore[method-assign]


def in_retire(host: Host) -> None:
    host.world.kernel.deletes, host.world.kernel.interrupt = 1, killed


def after_rows(host: Host) -> None:
    host.world.kernel.after.append(killed)


@pytest.mark.parametrize(
    "where", [before_write, half_written, before_retire, in_retire, after_rows]
)
@pytest.mark.parametrize("arrives", [False, True])
def test_a_kill_changes_no_sum(host: Host, where: Callable[[Host], None], arrives: bool) -> None:
    """The next agent has the rows or the journal, and shows 7 calls until their end was told."""
    host.world.call((host.cgroup, 1, SUBMIT, 12), 2)
    where(host)
    with suppress(Killed):
        host.period(arrives=arrives)
        pytest.fail("it was not killed")
    kernel = host.world.kernel
    kernel.deletes, kernel.after = None, []
    kernel.__dict__.pop("retire", None)

    host.start()
    shown = [host.period() for _ in range(3)]

    assert shown == [9, 9, 9]
    assert kernel.rows == {}
    host.period(LINGER_S)
    host.period()
    assert host.period() is None
    assert host.ended() == 9


def test_a_call_between_reading_and_retiring_keeps_its_row(host: Host) -> None:
    """The kernel sees that it changed; what the journal has of it is not added to it."""
    host.world.kernel.late.append(lambda: host.world.call(host.key, 1))

    assert host.period() == 7
    assert host.key in host.world.kernel.rows
    assert host.period() == 8
    assert host.period() == 8
    assert host.world.kernel.rows == {}


def test_a_row_that_comes_again_after_it_was_deleted_is_added(host: Host) -> None:
    """A late call makes the row anew; the journal has what the old one had."""
    who = host.world.who(host.cgroup)
    host.world.kernel.after.append(lambda: host.world.call(host.key, 1, who=who))

    assert host.period() == 7
    assert host.period() == 8
    assert host.period() == 8
    assert host.world.kernel.rows == {}


def test_without_a_journal_the_rows_stay(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """A folder that cannot be written: nothing is lost but room, and that is said once."""
    (host.folder / "journal.new").mkdir()

    assert [host.period() for _ in range(3)] == [7, 7, 7]
    assert host.key in host.world.kernel.rows
    assert [line for line in caplog.messages if "journal_unwritable" in line] == [
        f"event=journal_unwritable file={host.folder}/journal.json reason='Is a directory' "
        "consequence='rows of containers that are gone stay in the kernel'"
    ]

    (host.folder / "journal.new").rmdir()
    assert host.period() == 7
    assert host.world.kernel.rows == {}


def test_who_may_not_retire_counts_on_and_says_so_once(
    host: Host, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another user than the one who attached nothing is offered either."""
    monkeypatch.setattr(host.world.kernel, "retire", lambda: None)

    assert [host.period() for _ in range(3)] == [7, 7, 7]
    assert [line for line in caplog.messages if "not_retiring" in line] == [
        "event=not_retiring reason='the pins belong to another user' "
        "consequence='rows of containers that are gone stay in the kernel'"
    ]


def test_a_service_that_is_started_again_soon_goes_on(tmp_path: Path) -> None:
    """Same path, new cgroup: one series. Long after its end it is a new one, that began later."""
    host = Host(tmp_path)
    host.world = World()
    host.start()
    for calls, pause_s in ((5, 10), (3, 4 * LINGER_S), (2, 10)):
        host.world.start_service(0)
        cgroup = max(host.world.kernel.names)
        host.world.call((cgroup, 1, SUBMIT, 0), calls)
        host.period()
        host.world.remove(CgroupId(cgroup))
        for _ in range(4):
            host.period(pause_s // 4)

    ((key, series),) = (
        (key, series) for key, series in host.backend.shown.items() if key[-2] == "xpumeter.calls"
    )
    assert "process.linux.cgroup=/0.service" in key
    assert series.value == 2
    assert series.increase == 5 + 3 + 2
    assert host.ended() == 8


def test_a_name_that_comes_late_is_that_of_all_its_calls(host: Host) -> None:
    """The rows are gone when the runtime answers: the series is renamed all the same."""
    host.start()
    host.world.answers = False
    host.period()
    assert host.period() == 7
    assert host.world.kernel.rows == {}

    who = f"{1:064x}"
    host.world.known = {who: ContainerRecord(who, False, "main", "late", "ml", "uid")}
    host.world.answers = True
    assert host.period(30) == 7

    (key,) = (key for key in host.backend.arrived if key[-2] == "xpumeter.calls")
    assert "k8s.pod.name=late" in key


CARD = Incarnation(1)
GONE = Owner(cgroup="/gone")


def settled(number: int, *results: tuple[Kind, int], owner: Owner | None = None) -> Settled:
    """A caller that has ended, with one call for each result."""
    sums = {result: Sum(1, 10, number) for result in results}
    who = Identity(f"/{number}")
    return Settled(who, owner or Owner(cgroup=who.path), False, {CARD: sums})


def shown(*owners: Owner, left_out: bool = False) -> Attribution:
    """What is exported of them: their submissions; all of them have ended."""
    usage = Usage({(Kind.SUBMIT, 0): Tally(1, 5)}, {}, {})
    device = World().devices[CARD]
    usages = {} if left_out else {(owner, DeviceId(device.device_id)): usage for owner in owners}
    return Attribution(usages, {}, frozenset(owners), {device.device_id: device})


def after(
    past: list[Settled],
    what: Attribution,
    told: set[Owner],
    *,
    selection: Selection = SELECT_ALL,
    present: frozenset[Owner] = frozenset(),
    limit: int = 10,
) -> Past:
    """What is kept of the past."""
    devices = World().devices
    whole = Past(settled={each.identity: each.sums for each in past})
    gone = leaving(past, present, devices, what, told, selection=selection, limit=limit)
    return let_go(whole, gone)


def test_what_the_filter_left_out_stays_under_its_reason() -> None:
    """A service of a host that is off is `host_off`, also when its rows are gone."""
    past = [settled(1, (Kind.SUBMIT, 0))]
    off = Selection(host_on=False)

    kept = after(past, shown(GONE, past[0].owner or GONE, left_out=True), set(), selection=off)

    assert kept.unattributed == {(CARD, Reason.HOST_OFF): Sum(1, 10, 1)}


def test_a_collector_that_stays_away_costs_a_bounded_memory() -> None:
    """Beyond the limit the ends that have waited longest are told as unattributed calls."""
    waiting = [settled(number, (Kind.SUBMIT, 0)) for number in range(5)]
    owners = [each.owner for each in waiting if each.owner]

    kept = after(waiting, shown(*owners), set(), limit=3)

    assert list(kept.settled) == [Identity("/2"), Identity("/3"), Identity("/4")]
    assert kept.unattributed == {(CARD, Reason.UNDELIVERED): Sum(2, 20, 0)}
    assert kept.ended == {}


def test_who_still_has_rows_keeps_its_past() -> None:
    """A series of the rows alone would be less than it was."""
    one = settled(1, (Kind.SUBMIT, 0), owner=GONE)

    kept = after([one], shown(GONE), {GONE}, present=frozenset({GONE}), limit=0)

    assert kept.settled.keys() == {Identity("/1")}
    assert kept.ended == {}


def test_what_no_series_shows_stays_under_its_reason() -> None:
    """A caller, or a kind of it, that the configuration leaves out is not told; its calls stay."""
    part = settled(1, (Kind.SUBMIT, 0), (Kind.WAIT, 0), owner=GONE)

    told = after([part], shown(GONE), {GONE})
    assert (told.settled, told.ended) == ({}, {CARD: 1})
    assert told.unattributed == {(CARD, Reason.FILTERED): Sum(1, 10, 1)}

    never = after([part], shown(GONE, left_out=True), set())
    assert (never.settled, never.ended) == ({}, {})
    assert never.unattributed == {(CARD, Reason.FILTERED): Sum(2, 20, 1)}
