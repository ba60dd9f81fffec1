# SPDX-License-Identifier: Apache-2.0
"""What the container runtime said of callers, kept in a file for the next agent.

The kernel keeps the counts and the ids; names are only in the runtime, and gone from it once a pod
is deleted. The file belongs to one attach: with other counts it means nothing.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from xpumeter.model.owners import ContainerRecord
from xpumeter.source.state_file import StateFile

_log = logging.getLogger(__name__)

_FIELDS = {field.name for field in fields(ContainerRecord)}


class Memory:
    """Records by container id, in `folder`/containers.json.

    Attributes:
        bad_records: Records of the file that are none, passed over.
    """

    def __init__(self, folder: Path, attach_id: bytes) -> None:
        self.bad_records = 0
        self._file = StateFile(
            folder / "containers.json",
            name="memory",
            consequence="a restarted agent will not know containers that are gone by then",
        )
        self._attach_id = attach_id.hex()

    def load(self) -> dict[str, ContainerRecord]:
        """What an agent of the same attach saved; empty if there is none. Never raises."""
        try:
            saved = json.loads(self._file.path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            _log.warning("event=memory_unreadable file=%s reason=%r", self._file.path, str(error))
            self.bad_records += 1
            return {}
        if not isinstance(saved, dict) or saved.get("attach_id") != self._attach_id:
            return {}
        entries = saved.get("containers")
        records = [_record(entry) for entry in entries] if isinstance(entries, list) else [None]
        self.bad_records += records.count(None)
        return {record.container_id: record for record in records if record is not None}

    def save(self, records: Mapping[str, ContainerRecord]) -> None:
        """Replace what is there, as a whole or not at all. Where it cannot, one line says so."""
        text = json.dumps(
            {
                "attach_id": self._attach_id,
                "containers": [asdict(record) for record in records.values()],
            }
        )
        self._file.replace(text)


def _record(entry: Any) -> ContainerRecord | None:
    if not isinstance(entry, dict) or entry.keys() != _FIELDS:
        return None
    texts = [value for name, value in entry.items() if name != "sandbox"]
    if not isinstance(entry["sandbox"], bool) or not isinstance(entry["container_id"], str):
        return None
    if not all(text is None or isinstance(text, str) for text in texts):
        return None
    return ContainerRecord(**entry)
