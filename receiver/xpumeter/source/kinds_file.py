# SPDX-License-Identifier: Apache-2.0
"""Under which kinds calls were counted, kept in a file for the next agent.

It may have other driver tables, and what this agent counted must stay under the kinds that it had.
The file belongs to one attach: with other counts it means nothing.
"""

import json
import logging
from pathlib import Path
from typing import Any

from xpumeter.model.calls import Kind
from xpumeter.model.kernel import CgroupId, Incarnation, RowKey
from xpumeter.model.kinds import Before, KindHistory
from xpumeter.source.state_file import StateFile

_log = logging.getLogger(__name__)


_NONSENSE = (
    *(OSError, ValueError, TypeError, KeyError, AttributeError),
    *(OverflowError, RecursionError),
)


class KindsFile:
    """`folder`/kinds.json.

    Attributes:
        bad_records: How often the file made no sense, and was passed over.
    """

    def __init__(self, folder: Path, attach_id: bytes) -> None:
        self.bad_records = 0
        self._file = StateFile(
            folder / "kinds.json",
            name="kinds",
            consequence="the next agent moves old calls to their new kinds",
        )
        self._attach_id = attach_id.hex()

    def load(self) -> KindHistory:
        """What an agent of the same attach saved; an empty history if there is none."""
        try:
            saved = json.loads(self._file.path.read_text())
            if not isinstance(saved, dict) or saved.get("attach_id") != self._attach_id:
                return KindHistory()
            return _history(saved)
        except FileNotFoundError:
            return KindHistory()
        except _NONSENSE as error:
            _log.warning("event=kinds_unreadable file=%s reason=%r", self._file.path, str(error))
            self.bad_records += 1
            return KindHistory()

    def save(self, history: KindHistory) -> bool:
        """Replace what is there, as a whole or not at all: then False, and one line says so."""
        text = json.dumps(
            {
                "attach_id": self._attach_id,
                "drivers": history.drivers,
                "rows": [
                    [
                        *key,
                        [
                            [each.kind, each.calls, each.time_ns, each.until_boot_ns]
                            for each in past
                        ],
                    ]
                    for key, past in history.rows.items()
                ],
            }
        )
        return self._file.replace(text)


def _history(saved: dict[str, Any]) -> KindHistory:
    """Raises ValueError, TypeError, KeyError or AttributeError for what is no history."""
    return KindHistory(
        drivers={
            driver: {int(nr): Kind(kind) for nr, kind in kinds.items()}
            for driver, kinds in saved["drivers"].items()
        },
        rows={
            RowKey(CgroupId(int(cgroup_id)), Incarnation(int(device)), int(nr), int(error)): tuple(
                Before(Kind(kind), int(calls), int(time_ns), int(until))
                for kind, calls, time_ns, until in past
            )
            for cgroup_id, device, nr, error, past in saved["rows"]
        },
    )
