# SPDX-License-Identifier: Apache-2.0
"""Lets a changed driver table count from its load on, over restarts of the agent."""

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Protocol

from xpumeter.enrich.kind_history import changed, cut
from xpumeter.model.devices import KnownDevice
from xpumeter.model.kernel import Incarnation, Reading
from xpumeter.model.kinds import KindHistory


class KindsFile(Protocol):
    """Where the history outlives the agent."""

    def load(self) -> KindHistory:
        """What was saved."""
        ...

    def save(self, history: KindHistory) -> bool:
        """Keep it; whether that went well."""
        ...


class KindKeeper:
    """Cuts rows where the kind of their call changed, and remembers where that was."""

    def __init__(self, file: KindsFile) -> None:
        self._file = file
        self._history = file.load()
        self._met: Set[Incarnation] = set()
        self._saved = True

    def keep(
        self, reading: Reading, devices: Mapping[Incarnation, KnownDevice], *, boot_ns: int
    ) -> Reading:
        """The reading with its rows cut. `devices` are all that it has rows of, with their kinds.

        The first reading with a device of some driver is when the driver's table counts as loaded.
        """
        if devices.keys() != self._met:
            self._met = set(devices)
            history = changed(self._history, reading.rows, devices, boot_ns=boot_ns)
            if history is not self._history:
                self._history, self._saved = history, False
        if not self._saved:  # a full disk may have room the next time
            self._saved = self._file.save(self._history)
        return replace(reading, rows=cut(self._history, reading.rows))
