# SPDX-License-Identifier: Apache-2.0
"""What reading and enriching rows takes, beside a plain sum over the same bytes in the same run.

`make bench` prints the tables. Times of a busy machine say little; quotients of one run do.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

import pytest

from unit.pinned import pack_rows
from unit.stages import Stages
from unit.world import World
from xpumeter.enrich.attribute import attribute
from xpumeter.enrich.conservation import Audit
from xpumeter.enrich.ledger import Ledger
from xpumeter.enrich.places import Places
from xpumeter.model.kernel import CgroupId, DeviceTotal, Incarnation, Losses, Reading, Row
from xpumeter.model.owners import Owner
from xpumeter.model.past import Past
from xpumeter.source import layout, wire
from xpumeter.source.journal import Journal

_T = TypeVar("_T")

ROWS, PERIODS = 10_000, 15
CARD = Incarnation(1)
NUMBERS = (0x42, 0x48, 0x10)
RECORD = layout.record(layout.ROW_KEY.codes, layout.ROW.codes)


class Stopwatch:
    """CPU time by step, of each time that it was taken."""

    def __init__(self) -> None:
        self.taken_s: dict[str, list[float]] = {}

    def take(self, step: str, work: Callable[[], _T]) -> _T:
        """Do the work."""
        start_s = time.process_time()
        result = work()
        self.taken_s.setdefault(step, []).append(time.process_time() - start_s)
        return result

    def us_per_row(self, *steps: str) -> float:
        """Median period of these steps together; the first two fill what is kept."""
        periods = zip(*(self.taken_s[step][2:] for step in steps), strict=True)
        return median(map(sum, periods)) / ROWS * 1e6


def plain_sum(data: bytes) -> dict[tuple[int, int], int]:
    """Calls by cgroup and device: the least that anybody could do."""
    sums: dict[tuple[int, int], int] = {}
    for cgroup, device, _, _, calls, *_ in RECORD.iter_unpack(data):
        sums[cgroup, device] = sums.get((cgroup, device), 0) + calls
    return sums


def run(changing: float) -> Stopwatch:
    """Periods of three rows for each container, of which a part have more calls each time."""
    rows = [
        Row(CgroupId(1000 + each // 3), CARD, NUMBERS[each % 3], 0, 1, 7 * each, 5 + 3 * each)
        for each in range(ROWS)
    ]
    owners = {
        row.cgroup_id: Owner("ml", f"pod-{row.cgroup_id}", "uid", "main", f"{row.cgroup_id:064x}")
        for row in rows
    }
    devices = World().devices
    watch = Stopwatch()
    decoder, places, ledger, audit = wire.Rows(), Places(), Ledger(), Audit()
    for period in range(PERIODS):
        data = pack_rows(
            row._replace(calls=1 + period) if each % 100 < 100 * changing else row
            for each, row in enumerate(rows)
        )
        watch.take("plain sum", lambda data=data: plain_sum(data))  # type: ignore[misc]
        found = watch.take("decode", lambda data=data: decoder.decode(data))  # type: ignore[misc]
        totals = (DeviceTotal(CARD, sum(row.calls for row in found), 0, 0),)
        reading = Reading(totals, found, totals, Losses())
        shown = watch.take(
            "attribute",
            lambda reading=reading: attribute(  # type: ignore[misc]
                reading, devices, owners, set(), places=places
            ),
        )
        watch.take(
            "ledger",
            lambda shown=shown: ledger.update(  # type: ignore[misc]
                shown, unix_ns=2 * 10**18, boot_to_unix_ns=10**18
            ),
        )
        watch.take("audit", lambda reading=reading: audit.check(reading, Past()))  # type: ignore[misc]
    return watch


STEPS = ("plain sum", "decode", "attribute", "ledger", "audit")


def test_what_did_not_change_costs_little_more_than_a_plain_sum() -> None:
    """10,000 rows: attribution and ledger take at most six times the sum of the same rows.

    Quiet, at most twice. With an allowance for a busy machine, and far from the fifteen times that
    it was when each row was added up anew.
    """
    print(f"\n{'us per row':>12}", *(f"{step:>10}" for step in STEPS), f"{'quotient':>10}")
    quotients = {}
    for changing in (0.0, 0.1, 0.3, 1.0):
        watch = run(changing)
        enriching = watch.us_per_row("attribute", "ledger")
        quotients[changing] = enriching / watch.us_per_row("plain sum")
        print(
            f"{changing:>6.0%} new",
            *(f"{watch.us_per_row(step):>10.2f}" for step in STEPS),
            f"{quotients[changing]:>10.1f}",
        )

    assert quotients[0.0] < 6


def resident_mib() -> float:
    """Of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def test_containers_that_come_and_go_leave_nothing(tmp_path: Path) -> None:
    """Rows, names, journal and memory after many containers are those after few."""
    containers = 100_000 if os.environ.get("HYPOTHESIS_PROFILE") == "search" else 5_000
    world = World()
    agent = Stages(
        world.kernel,
        world.devices,
        runtime=world,
        memory=None,
        journal=Journal(tmp_path, b"x"),
        clock=lambda: world.now_s,
    )
    delivered = 0
    sizes: list[tuple[float, int, int, int]] = []
    for _ in range(containers // 200):
        started = [world.create_container(pod, known=True)[0] for pod in range(200)]
        for cgroup in started:
            world.call((cgroup, 1, 0x42, 0), 1)
        for number in range(2):
            world.now_s += 5
            _, batch = agent.export(delivered=delivered)
            delivered = batch.seq
            assert agent.difference == (0, 0)
            if number:
                for cgroup in started:
                    world.remove(cgroup)
            agent.retire()
        world.made.clear()  # the model's own book, which nobody reads here
        sizes.append(
            (
                resident_mib(),
                (tmp_path / "journal.json").stat().st_size if len(sizes) > 1 else 0,
                len(world.kernel.rows),
                sum(map(len, batch.parts)),
            )
        )

    middle, last = sizes[len(sizes) // 4], sizes[-1]
    print(f"\n{'':>22}{'MiB':>8}{'journal':>10}{'rows':>8}{'batch':>10}")
    for label, size in (("a quarter of the way", middle), (f"{containers:,} containers", last)):
        print(f"{label:>22}{size[0]:>8.1f}{size[1]:>10,}{size[2]:>8}{size[3]:>10,}")
    assert last[1:] == pytest.approx(middle[1:], rel=0.05)
    assert last[0] - middle[0] < 5
