# SPDX-License-Identifier: Apache-2.0
"""What rows had that the kernel has deleted, or may have, kept in a file for the next agent.

The file belongs to one attach: with other counts it means nothing. It lies beside containers.json,
on a file system of memory: a host that crashes has lost the counts too.
"""

import json
import logging
from pathlib import Path
from typing import Any

from xpumeter.model.calls import Kind, Reason
from xpumeter.model.kernel import CgroupId, Incarnation, RowKey
from xpumeter.model.owners import Identity
from xpumeter.model.past import Past, Pending, Result, Sum
from xpumeter.source.state_file import StateFile

_log = logging.getLogger(__name__)


class Journal:
    """A Past in `folder`/journal.json.

    Attributes:
        bad_records: Files that made no sense, passed over.
    """

    def __init__(self, folder: Path, attach_id: bytes) -> None:
        self.bad_records = 0
        self._file = StateFile(
            folder / "journal.json",
            name="journal",
            consequence="rows of containers that are gone stay in the kernel",
        )
        self._attach_id = attach_id.hex()

    def load(self) -> Past:
        """What an agent of the same attach saved; empty if there is none. Never raises.

        A file that is damaged anywhere is passed over as a whole: half of it would be wrong sums.
        """
        try:
            saved = json.loads(self._file.path.read_text())
            if saved["attach_id"] != self._attach_id:
                return Past()
            return _past(saved)
        except FileNotFoundError:
            return Past()
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as bad:
            _log.error(
                "event=journal_unreadable file=%s reason=%r consequence="
                "'calls of containers that are gone are missing'",
                self._file.path,
                str(bad),
            )
            self.bad_records += 1
            return Past()

    def save(self, past: Past) -> bool:
        """Replace what is there, as a whole or not at all: then False, and one line says so."""
        was_failing = self._file.failing
        written = self._file.replace(_text(self._attach_id, past))
        if written and was_failing:
            _log.info("event=journal_written file=%s", self._file.path)
        return written


def _text(attach_id: str, past: Past) -> str:
    return json.dumps(
        {
            "attach_id": attach_id,
            "pending": [
                [*each.key, *_names(each.identity), *each.result, *each.sum, *each.row]
                for each in past.pending
            ],
            "settled": [
                [*_names(identity), device, *result, *each]
                for identity, by_device in past.settled.items()
                for device, sums in by_device.items()
                for result, each in sums.items()
            ],
            "ended": list(past.ended.items()),
            "unattributed": [[*key, *each] for key, each in past.unattributed.items()],
        },
        separators=(",", ":"),
    )


def _names(identity: Identity | None) -> tuple[str | None, str | None, str | None]:
    """An identity that nobody knows has no path, that of a container an empty one."""
    if identity is None:
        return None, None, None
    return identity.path, identity.pod_uid, identity.container_id


def _past(saved: Any) -> Past:
    pending = [
        Pending(
            RowKey(CgroupId(_count(cgroup)), *_of_device(device, nr), _count(error)),
            _identity(*names),
            (Kind(kind), _count(result)),
            _sum(*numbers[:3]),
            _sum(*numbers[3:]),
        )
        for cgroup, device, nr, error, path, uid, container, kind, result, *numbers in saved[
            "pending"
        ]
        for names in [(path, uid, container)]
    ]
    settled: dict[Identity | None, dict[Incarnation, dict[Result, Sum]]] = {}
    for path, pod_uid, container_id, device, kind, error, *numbers in saved["settled"]:
        by_device = settled.setdefault(_identity(path, pod_uid, container_id), {})
        sums = by_device.setdefault(Incarnation(_count(device)), {})
        sums[Kind(kind), _count(error)] = _sum(*numbers)
    return Past(
        pending=tuple(pending),
        settled=settled,
        ended={Incarnation(_count(device)): _count(calls) for device, calls in saved["ended"]},
        unattributed={
            (Incarnation(_count(device)), Reason(reason)): _sum(*numbers)
            for device, reason, *numbers in saved["unattributed"]
        },
    )


def _of_device(device: Any, nr: Any) -> tuple[Incarnation, int]:
    return Incarnation(_count(device)), _count(nr)


def _identity(path: Any, pod_uid: Any, container_id: Any) -> Identity | None:
    for text in (path, pod_uid, container_id):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"no name: {text!r}")
    return None if path is None else Identity(path, pod_uid, container_id)


def _sum(calls: Any, time_ns: Any, first_boot_ns: Any) -> Sum:
    return Sum(_count(calls), _count(time_ns), _count(first_boot_ns))


def _count(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise TypeError(f"no count: {number!r}")
    return number
