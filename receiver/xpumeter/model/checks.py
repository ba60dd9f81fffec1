# SPDX-License-Identifier: Apache-2.0
"""What `doctor` finds."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How one thing stands, worst last but one."""

    OK = "ok"
    WARN = "warn"
    """Calls are counted, or will be; something could be better."""
    FAIL = "fail"
    """As it is, no call is counted here, or none is exported."""
    UNKNOWN = "unknown"
    """This process may not look."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: what was found, and one line on what to do about it.

    `hint` is empty where nothing is to be done.
    """

    name: str
    status: Status
    found: str
    hint: str = ""
