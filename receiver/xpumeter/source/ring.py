# SPDX-License-Identifier: Apache-2.0
"""The ring of first calls: what is worth waking up for. Where it is refused, nothing is lost."""

import errno
from pathlib import Path

from xpumeter.model.kernel import CallEvent
from xpumeter.source import libbpf, wire


class Ring:
    """Wakes on the first call of each row.

    Attributes:
        bad_records: Records of another length, passed over.

    Raises:
        OSError: bpf(2) is refused (seccomp, or a kernel before 5.19), or there is no ring.
    """

    def __init__(self, pins: Path) -> None:
        self.bad_records = 0
        self._events: list[CallEvent] = []
        self._reader = libbpf.RingReader(pins / "map_events", self._keep)

    def _keep(self, data: bytes) -> None:
        event = wire.decode_event(data)
        if event is None:
            self.bad_records += 1
        else:
            self._events.append(event)

    def fileno(self) -> int:
        """Readable while there are events, for select(2)."""
        return self._reader.fileno()

    def take(self) -> tuple[CallEvent, ...]:
        """The events since the last time; never waits."""
        self._reader.take()
        events, self._events = tuple(self._events), []
        return events

    def close(self) -> None:
        """Let go of the ring; the kernel drops what nobody reads, and counts that."""
        self._reader.close()


def why_refused(error: OSError) -> str:
    """One clause on why the ring cannot be read."""
    if error.errno == errno.EPERM:
        return "bpf(2) is refused here, as container runtimes do by default"
    return str(error.args[1])
