# SPDX-License-Identifier: Apache-2.0
"""What the lab raises on purpose."""


class LabError(Exception):
    """This host cannot do it: what happened, in one line; `hint` says what to do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class VmGone(LabError):  # noqa: N818 (the name says it without "Error")
    """The VM did not come up, or ended while something waited for it."""
