# SPDX-License-Identifier: Apache-2.0
"""The devices of this host as they come, are called, and go.

sysfs is read when something in it changed, which `sysfs.look` tells, or a device was called for the
first time; not in each period.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path

from xpumeter.drivers import Tables
from xpumeter.enrich.devices import know_all, know_idle
from xpumeter.enrich.kind_history import with_kinds_before
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.kernel import Incarnation, KernelDevice
from xpumeter.source import sysfs

_log = logging.getLogger(__name__)


class Devices:
    """Those that were called, by incarnation, and those that are there and never were.

    A device that went keeps its names, and is `gone`: calls on files that are still open go to it,
    whoever has its node number by now.

    Attributes:
        known: Every device that was called since attach.
        idle: The others that are there.
        bad: Files of sysfs that made no sense, each scan's added up.
    """

    def __init__(self, tables: Tables, root: Path = sysfs.SYSFS) -> None:
        self.known: Mapping[Incarnation, KnownDevice] = {}
        self.idle: Mapping[DeviceId, KnownDevice] = {}
        self.bad = 0
        self._tables = tables
        self._root = root
        self._looked: frozenset[tuple[str, int]] | None = None

    def update(
        self, incarnations: Set[Incarnation], called: Callable[[], Iterable[KernelDevice]]
    ) -> None:
        """Learn who came and went, and who was called: `incarnations` are those of the rows.

        `called` gives what the kernel knows of them; it is asked only when there is need.
        """
        looked = sysfs.look(self._root)
        changed = looked != self._looked
        # 0 is what got no number, and never gets a name.
        if not changed and not incarnations - self.known.keys() - {0}:
            return
        before = self._present()
        bad: list[Path] = []
        # Looked at before it is read: what changes meanwhile is seen the next time.
        self._looked = looked
        found = sysfs.read_devices(self._root, bad=bad) if looked else None
        self.bad += len(bad)
        tables, core = self._tables.by_driver, self._tables.core.kinds
        known = know_all(called(), found, tables, core, self.known)
        self.known = {number: with_kinds_before(device) for number, device in known.items()}
        self.idle = know_idle(self.known.values(), found or (), tables, core)
        if changed:
            _tell(before, self._present() or {})

    def _present(self) -> dict[DeviceId, KnownDevice] | None:
        """Devices that are there; None before the first look."""
        if self._looked is None:
            return None
        there = {each.device_id: each for each in self.known.values() if not each.gone}
        return {**self.idle, **there}


def _tell(
    before: Mapping[DeviceId, KnownDevice] | None, now: Mapping[DeviceId, KnownDevice]
) -> None:
    if before is None:
        if now:
            _log.info("event=devices count=%d", len(now))
        else:
            _log.info("event=no_device consequence='nothing is counted until a driver makes one'")
        return
    for device_id in sorted(now.keys() - before.keys()):
        came = now[device_id]
        nodes = " ".join(came.node_names)
        _log.info("event=device_came device=%r driver=%s nodes=%r", device_id, came.driver, nodes)
    for device_id in sorted(before.keys() - now.keys()):
        _log.info("event=device_gone device=%r", device_id)
