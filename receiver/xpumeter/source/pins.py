# SPDX-License-Identifier: Apache-2.0
"""Reads what the kernel counted, through the pinned iterators: files, no bpf(2), no privilege.

An iterator is no snapshot. So the totals are read before and after the rows; the programs add to a
row first and to the total second, which makes the comparison exact (see `Reading`).
"""

from pathlib import Path

from xpumeter.errors import NotAttached
from xpumeter.model.kernel import CgroupId, CgroupName, KernelDevice, Reading
from xpumeter.source import hooks, wire
from xpumeter.source.folder import read_meta


class Pins:
    """The files of one attach.

    Attributes:
        meta: What they are; another attach id means other counts.

    Raises:
        NotAttached: Nothing of this layout is attached, or it may not be read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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

    def read(self) -> Reading:
        """All rows, between two readings of the totals, and the calls in flight after that.

        Raises:
            NotAttached: The pins are gone, or are those of another attach by now.
        """
        if read_meta(self._folder).attach_id != self.meta.attach_id:
            raise NotAttached(
                f"{self._folder} was attached anew: these are other counts",
                hint="restart the agent",
            )
        before = wire.decode_totals(self._file("totals"))
        rows = wire.decode_rows(self._file("rows"))
        after = wire.decode_totals(self._file("totals"))
        return Reading(
            before,
            rows,
            after,
            wire.decode_losses(self._file("losses")),
            wire.decode_threads(self._file("threads")),
        )

    def cgroups(self) -> dict[CgroupId, CgroupName]:
        """Every cgroup that called, with those above it."""
        return wire.decode_cgroups(self._file("cgroups"))

    def devices(self) -> tuple[KernelDevice, ...]:
        """Every device that was called."""
        return wire.decode_devices(self._file("devices"))
