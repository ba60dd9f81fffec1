# SPDX-License-Identifier: Apache-2.0
"""Delivers batches to a Collector, from a thread of its own."""

import logging
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from xpumeter.destination import Retry
from xpumeter.export import split
from xpumeter.export.messages import Batch
from xpumeter.export.transport import CLOSING, FAULT, Refused, Taken, Transport, Try
from xpumeter.model.exports import ExportStats

_log = logging.getLogger(__name__)

_WAIT_LIMIT_S = 300.0
"""What a Collector may ask for: one that asks for a day gets the totals before."""

_CAUSES = 16
"""Causes of rejected points that are logged before all is well again."""

_OK = "OK"
_PARTIAL = "PARTIAL_SUCCESS"
_DEFAULTS = Retry()


class _GivenUp(Exception):  # noqa: N818 (the name says it without "Error")
    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.refused = refused


class Sender:
    """Delivers batches, one at a time; a newer one replaces what waits.

    Whatever the Collector does, `send` returns at once and two batches at most are held. A batch
    is tried again, with growing pauses, until it arrives, is refused for good, or a newer one is
    there. The pauses go on growing from batch to batch: a newer one is tried at once, unless the
    Collector has asked for a pause, but then as rarely as the one before.

    Attributes:
        delivered: `seq` of the newest batch that arrived; 0 if none did.
        stats: What became of the batches so far; replaced as a whole, so read it once.
    """

    def __init__(self, transport: Transport, retry: Retry = _DEFAULTS) -> None:
        self._transport = transport
        self._retry = retry
        self.delivered = 0
        self.stats = ExportStats()
        self._pause_s = retry.initial_interval_s
        self._told: set[str] = set()
        self._state = ""
        self._wake = threading.Condition()
        self._waiting: Batch | None = None
        self._in_flight: Try | None = None
        self._refused = Refused(CLOSING, "closing")
        self._not_before_s = 0.0
        self._closes_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="xpumeter-otlp", daemon=True)
        self._thread.start()

    def send(self, batch: Batch) -> None:
        """Hand over a batch; never waits."""
        with self._wake:
            self._waiting = batch
            self._wake.notify()

    def close(self, *, deadline_s: float) -> None:
        """Send what waits and stop, within the deadline."""
        with self._wake:
            self._closes_at = time.monotonic() + deadline_s
            # A try that hangs would eat the time of the newest batch, which has all that it has.
            if self._waiting is not None and (hanging := self._in_flight) is not None:
                hanging.cancel()
            self._wake.notify()
        self._thread.join(deadline_s)
        self._transport.close()  # ends a try that is still there
        self._thread.join(1)

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            if not batch.parts:
                self.delivered = batch.seq
                continue
            begin_s, rejected = time.monotonic(), self.stats.rejected_points
            refused = self._export(batch)
            self._account(batch, refused, time.monotonic() - begin_s)
            if refused is None:
                self.delivered = batch.seq
                if self.stats.rejected_points == rejected:
                    self._report(_OK, "")

    def _next(self) -> Batch | None:
        """The batch that waits; None once there is none and we close."""
        with self._wake:
            self._wake.wait_for(lambda: self._waiting is not None or self._closes_at is not None)
            batch, self._waiting = self._waiting, None
            return batch

    def _export(self, batch: Batch) -> Refused | None:
        """Bring a batch across: None, or what it was given up for."""
        try:
            for part in batch.parts:
                self._deliver(part)
        except _GivenUp as end:
            _log.debug("event=batch_failed batch=%d reason=%r", batch.seq, end.refused.reason)
            return end.refused
        except Exception as error:  # a fault of ours must not end the exports for good
            self._report("FAULT", repr(error))
            return Refused(FAULT, repr(error))
        return None

    def _account(self, batch: Batch, refused: Refused | None, duration_s: float) -> None:
        before = self.stats
        self.stats = replace(
            before,
            exports=before.exports + 1,
            failures=_plus(before.failures, refused, 1),
            points=before.points + (0 if refused else batch.points),
            failed_points=_plus(before.failed_points, refused, batch.points),
            duration_s=before.duration_s + duration_s,
            last_duration_s=duration_s,
        )

    def _deliver(self, part: bytes) -> None:
        """Bring a request across, with as many tries as it takes."""
        begin_s = time.monotonic()
        while isinstance(outcome := self._try(part), Refused):
            if outcome.too_large and (halves := split.halves(part)):
                for half in halves:
                    self._deliver(half)
                return
            self._refused = outcome
            self._report(outcome.cause, outcome.reason)
            elapsed_s = time.monotonic() - begin_s
            if not outcome.again or not self._may_retry(elapsed_s) or not self._pause():
                raise _GivenUp(outcome)
        self._pause_s = self._retry.initial_interval_s
        before = self.stats
        self.stats = replace(
            before,
            sent_bytes=before.sent_bytes + len(part),
            rejected_points=before.rejected_points + outcome.rejected_points,
        )
        # A good answer has a partial success too: an empty one.
        if outcome.rejected_points > 0 or outcome.message:
            self._report(_PARTIAL, outcome.message)

    def _try(self, part: bytes) -> Taken | Refused:
        """Send a request once."""
        with self._wake:
            self._keep_away()
            superseded = self._closes_at is not None and self._waiting is not None
            if superseded or self._left_s() <= 0:
                raise _GivenUp(Refused(CLOSING, "closing"))
            self._in_flight = self._transport.begin(part)
        try:
            outcome = self._in_flight.result()
        finally:
            self._in_flight = None
        self.stats = replace(self.stats, requests=self.stats.requests + 1)
        if isinstance(outcome, Refused) and outcome.again and outcome.wait_s:
            self._not_before_s = time.monotonic() + min(outcome.wait_s, _WAIT_LIMIT_S)
        return outcome

    def _keep_away(self) -> None:
        """Wait as long as the Collector asked for; not if a newer batch or the end comes first."""
        while (wait_s := self._not_before_s - time.monotonic()) > 0:
            if self._waiting is not None or self._left_s() <= wait_s:
                raise _GivenUp(self._refused)
            self._wake.wait(wait_s)

    def _may_retry(self, elapsed_s: float) -> bool:
        limit_s = self._retry.max_elapsed_time_s
        return self._retry.enabled and (not limit_s or elapsed_s < limit_s)

    def _pause(self) -> bool:
        """Wait before the next try. False if there is none: a newer batch waits, or time is up."""
        spread = self._retry.randomization_factor
        seconds = self._pause_s * random.uniform(1 - spread, 1 + spread)  # noqa: S311
        longest_s = max(self._retry.max_interval_s, self._retry.initial_interval_s)
        self._pause_s = min(self._pause_s * self._retry.multiplier, longest_s)
        with self._wake:
            closing = self._closes_at
            self._wake.wait_for(
                lambda: self._waiting is not None or self._closes_at != closing,
                min(seconds, self._left_s()),
            )
            return self._waiting is None and self._left_s() > 0

    def _left_s(self) -> float:
        if self._closes_at is None:
            return threading.TIMEOUT_MAX
        return self._closes_at - time.monotonic()

    def _report(self, state: str, reason: str) -> None:
        """Log a change of state; of points that are rejected also each further cause, once.

        Numbers do not make another cause: they are counts and times more often than not.
        """
        cause = re.sub("[0-9]+", "0", reason)
        further = state == _PARTIAL and cause not in self._told and len(self._told) < _CAUSES
        if state == self._state and not further:
            return
        self._state = state
        endpoint = self._transport.endpoint
        if state == _OK:
            self._told.clear()
            _log.info("event=collector endpoint=%s state=%s", endpoint, state)
            return
        if further:
            self._told.add(cause)
        _log.warning("event=collector endpoint=%s state=%s reason=%r", endpoint, state, reason)


def _plus(counts: Mapping[str, int], refused: Refused | None, more: int) -> Mapping[str, int]:
    return Counter(counts) + Counter({refused.cause: more}) if refused else counts
