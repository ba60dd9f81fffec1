# SPDX-License-Identifier: Apache-2.0
"""What probes are told: whether the loop goes round, and whether it has counted anything yet.

Never whether a Collector or a container runtime is there: a restart of the agent mends neither.
"""

import time
from collections.abc import Callable

from xpumeter.errors import NotAttached

_PERIODS = 3
_SLACK_S = 30.0
"""Beside the periods: for a runtime that hangs, and a board that swaps."""


class Health:
    """Health of one pipeline; asked from another thread than the one that beats.

    `check` looks whether the counts are still there and raises NotAttached if not. `clock` is
    monotonic, in seconds.
    """

    def __init__(
        self,
        interval_s: float,
        check: Callable[[], object],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit_s = _PERIODS * interval_s + _SLACK_S
        self._check = check
        self._clock = clock
        self._beat_s = clock()
        self._collected = False

    def collected(self) -> None:
        """Once a period: the kernel was read, and what it said is on its way."""
        self._collected = True
        self._beat_s = self._clock()

    def alive(self) -> str:
        """Why a restart would help; empty if it would not."""
        silent_s = self._clock() - self._beat_s
        if silent_s > self._limit_s:
            return f"nothing was collected for {silent_s:.0f} s, {self._limit_s:.0f} s at most"
        try:
            self._check()
        except NotAttached as gone:
            return str(gone)
        return ""

    def ready(self) -> str:
        """Why there is nothing to be had from it yet; empty if there is."""
        return self.alive() or ("" if self._collected else "nothing was collected yet")
