# SPDX-License-Identifier: Apache-2.0
"""A file that an agent keeps for the next one: replaced as a whole, or not at all."""

import logging
from pathlib import Path

_log = logging.getLogger(__name__)


class StateFile:
    """One file of the state folder, which is made if it is not there.

    `name` is what the log calls it: `event=NAME_unwritable`, once until it can be written again.
    `consequence` is what that means for the next agent.
    """

    def __init__(self, path: Path, *, name: str, consequence: str) -> None:
        self.path = path
        self.failing = False
        self._name = name
        self._consequence = consequence

    def replace(self, text: str) -> bool:
        """Put the text there; False if that failed, and what was there before still is."""
        new = self.path.with_suffix(".new")
        try:
            self.path.parent.mkdir(exist_ok=True)
            new.write_text(text)
            new.replace(self.path)
        except OSError as error:
            if not self.failing:
                _log.warning(
                    "event=%s_unwritable file=%s reason=%r consequence=%r",
                    self._name,
                    self.path,
                    error.strerror,
                    self._consequence,
                )
            self.failing = True
            return False
        self.failing = False
        return True
