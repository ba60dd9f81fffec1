# SPDX-License-Identifier: Apache-2.0
"""Everything xpumeter raises on purpose.

XpumeterError              exit 70  a fault of ours
+- ConfigError             exit 78  a file says something wrong
|  +- DriverTableError              ... in config/drivers/ or a mounted folder
+- HostError               exit 69  this machine cannot do it
|  +- MissingCapability    exit 77  ... not with these privileges
|  +- DriverNotLoaded              ... yet
|  +- NotAttached          exit 75  nothing is attached here (yet)
|     +- PinsUnusable               ... or something that this process cannot read
+- RuntimeUnavailable      none     the container runtime did not answer; names come later

Exit codes are those of sysexits.h. Only `cli.py` prints these; the agent's loop catches what it
can outlive and counts it.
"""

from typing import ClassVar


class XpumeterError(Exception):
    """What happened and where, in one line; `hint` says what to do about it."""

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(XpumeterError):
    """A file says something wrong: the message names file and line."""

    exit_code = 78


class DriverTableError(ConfigError):
    """A driver table says something wrong."""


class HostError(XpumeterError):
    """This machine cannot do it."""

    exit_code = 69


class MissingCapability(HostError):  # noqa: N818 (the name says it without "Error")
    """Not with these privileges: the message names the capability."""

    exit_code = 77


class DriverNotLoaded(HostError):  # noqa: N818
    """No driver is there yet whose calls could be counted."""


class NotAttached(HostError):  # noqa: N818
    """Nothing is attached here, or not any more."""

    exit_code = 75


class PinsUnusable(NotAttached):
    """Something is pinned here, of another layout or not for this user's eyes."""


class RuntimeUnavailable(XpumeterError):  # noqa: N818
    """The container runtime did not answer, or answered nonsense; counts wait for their names."""
