# SPDX-License-Identifier: Apache-2.0
"""Reads what the kernel counted, through the pinned iterators: files, no bpf(2), no privilege.

An iterator is no snapshot. So the totals are read before and after the rows; the programs add to a
row first and to the total second, which makes the comparison exact (see `Reading`).

What nobody will add to any more is offered with the rows, and deleted by reading other files, which
only the user who attached may read. So there is time in between to keep what is in such rows.
"""

from pathlib import Path
from typing import NamedTuple

from xpumeter.errors import NotAttached
from xpumeter.model.kernel import CgroupId, CgroupName, KernelDevice, Reading
from xpumeter.source import hooks, wire
from xpumeter.source.folder import read_meta


class Retired(NamedTuple):
    """How many rows and names of cgroups the kernel has let go."""

    rows: int
    cgroups: int


class Pins:
    """The files of one attach.

    Attributes:
        meta: What they are; another attach id means other counts.

    Raises:
        NotAttached: Nothing of this layout is attached, or it may not be read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows = wire.Rows()
        self.meta = read_meta(folder)

    @property
    def hook(self) -> str:
        """Name of the hook that was taken."""
        return hooks.named(self.meta.hook) or "unknown"

    def _file(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except OSError as error:
            raise NotAttached(
                f"{self._folder / name} cannot be read: {error.strerror}",
                hint="was it detached? attach again, and restart the agent",
            ) from error

    def _own_file(self, name: str) -> bytes | None:
        """None if it is another user's."""
        try:
            return self._file(name)
        except NotAttached as error:
            if isinstance(error.__cause__, PermissionError):
                return None
            raise

    def check(self) -> None:
        """Look whether these counts are still there.

        Raises:
            NotAttached: The pins are gone, or are those of another attach by now.
        """
        if read_meta(self._folder).attach_id != self.meta.attach_id:
            raise NotAttached(
                f"{self._folder} was attached anew: these are other counts",
                hint="restart the agent",
            )

    def read(self) -> Reading:
        """All rows, between two readings of the totals; calls that are open, before these.

        Rows are offered only to who may retire them.

        Raises:
            NotAttached: As `check`.
        """
        self.check()
        is_open = wire.decode_open_calls(self._file("threads"))
        before = wire.decode_totals(self._file("totals"))
        offered = self._own_file("offer_rows")
        if offered is None:
            rows = self._rows.decode(self._file("rows"))
        else:
            rows = self._rows.decode(offered, offering=True)
        after = wire.decode_totals(self._file("totals"))
        losses = wire.decode_losses(self._file("losses"))
        return Reading(before, rows, after, losses, is_open)

    def retire(self) -> Retired | None:
        """Delete the rows that the last reading offered, then names that nothing needs any more.

        A row that was added to since is kept, and offered anew. None if this user may not: then all
        of them stay.

        Raises:
            NotAttached: The pins are gone, or are those of another attach by now.
        """
        self.check()
        rows = self._own_file("retire_rows")
        cgroups = self._own_file("retire_cgroups")
        if rows is None or cgroups is None:
            return None
        return Retired(wire.count_rows(rows), wire.count_cgroups(cgroups))

    def cgroups(self) -> dict[CgroupId, CgroupName]:
        """Every cgroup that called, with those above it."""
        return wire.decode_cgroups(self._file("cgroups"))

    def devices(self) -> tuple[KernelDevice, ...]:
        """Every device that was called."""
        return wire.decode_devices(self._file("devices"))
