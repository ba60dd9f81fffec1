# SPDX-License-Identifier: Apache-2.0
"""The kernel's side of an attach, as a model: counts, names, offers rows and deletes them."""

from collections.abc import Callable

from xpumeter.model.kernel import (
    CgroupId,
    CgroupName,
    DeviceTotal,
    Incarnation,
    Losses,
    Reading,
    Row,
)

ROOT = CgroupId(1)
Key = tuple[int, int, int, int]


class FakeKernel:
    """Rows, totals and names.

    Attributes:
        rows: By cgroup, device, call number and error.
        names: By cgroup; dead ones until they are retired.
        returns, refused: By device.
        late: Done between a reading and what `retire` deletes of it: a call that comes then.
        after: Done when `retire` has deleted the rows, and no names yet.
        deletes: How many rows `retire` may delete before `interrupt` is called; None: all.
    """

    def __init__(self) -> None:
        self.rows: dict[Key, Row] = {}
        self.names = {ROOT: CgroupName(ROOT, CgroupId(0), "", False)}
        self.returns: dict[int, int] = {}
        self.refused: dict[int, int] = {}
        self.late: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []
        self.deletes: int | None = None
        self.interrupt: Callable[[], None] = lambda: None
        self._offered: dict[Key, int] = {}
        self._in_the_air: list[int] = []

    def call(self, key: Key, calls: int, *, boot_ns: int, counted: bool = True) -> None:
        """Calls that return; not `counted`: they are between their row and their total yet."""
        cgroup, device, nr, error = key
        row = self.rows.get(key) or Row(
            CgroupId(cgroup), Incarnation(device), nr, error, 0, 0, boot_ns
        )
        self.rows[key] = row._replace(calls=row.calls + calls, time_ns=row.time_ns + calls)
        if counted:
            self.returns[device] = self.returns.get(device, 0) + calls
        else:
            self._in_the_air += [device] * calls

    def refuse(self, device: int, calls: int) -> None:
        """Calls without room for a row."""
        for counts in (self.returns, self.refused):
            counts[device] = counts.get(device, 0) + calls

    def read(self) -> Reading:
        """As Pins. Rows of dead cgroups are offered with the value that they have here."""
        totals = tuple(
            DeviceTotal(Incarnation(device), returns, self.refused.get(device, 0), 0)
            for device, returns in self.returns.items()
        )
        dead = {name.cgroup_id for name in self.names.values() if name.dead}
        self._offered = {key: row.calls for key, row in self.rows.items() if key[0] in dead}
        rows = tuple(row._replace(offered=key in self._offered) for key, row in self.rows.items())
        for device in self._in_the_air:
            self.returns[device] = self.returns.get(device, 0) + 1
        self._in_the_air = []
        return Reading(totals, rows, totals, Losses())

    def retire(self) -> tuple[int, int]:
        """As Pins: delete what was offered and did not change, then names that nobody needs."""
        for each in self.late:
            each()
        self.late = []
        gone = 0
        for count, (key, calls) in enumerate(self._offered.items()):
            if count == self.deletes:
                self.interrupt()
            if self.rows[key].calls == calls:
                del self.rows[key]
                gone += 1
        self._offered = {}
        for each in self.after:
            each()
        self.after = []
        before = len(self.names)
        while unused := self._unused():
            for cgroup in unused:
                del self.names[cgroup]
        return gone, before - len(self.names)

    def _unused(self) -> set[CgroupId]:
        needed = {name.parent for name in self.names.values()} | {key[0] for key in self.rows}
        return {each.cgroup_id for each in self.names.values() if each.dead} - needed
