# SPDX-License-Identifier: Apache-2.0
"""When a batch is tried again, and when it is left alone: by a Collector that answers by script."""

import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from fake_collector import until
from xpumeter.destination import Retry
from xpumeter.export.messages import Batch
from xpumeter.export.sender import Sender
from xpumeter.export.transport import Refused, Taken

Outcome = Taken | Refused

AWAY = Refused("UNAVAILABLE", "away", again=True)
STEADY = Retry(initial_interval_s=0.01, multiplier=1, randomization_factor=0)


class Script:
    """A way to a Collector that answers as told, and notes when it was tried."""

    endpoint = "script"

    def __init__(self, answer: Callable[[bytes], Outcome]) -> None:
        self.answer = answer
        self.tried: list[tuple[float, bytes]] = []
        self.closed = False

    def begin(self, request: bytes) -> "Script":
        self.tried.append((time.monotonic(), request))
        return self

    def result(self) -> Outcome:
        return self.answer(self.tried[-1][1])

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    @property
    def requests(self) -> list[bytes]:
        return [request for _, request in self.tried]

    @property
    def pauses_s(self) -> list[float]:
        times = [at_s for at_s, _ in self.tried]
        return [late - early for early, late in pairwise(times)]


def batch(seq: int) -> Batch:
    return Batch(seq, (b"%d" % seq,), points=3)


def test_pauses_grow_to_their_limit() -> None:
    """By the multiplier, spread by chance, and never beyond the longest."""
    script = Script(lambda _request: AWAY)
    retry = Retry(True, 0.02, randomization_factor=0.5, multiplier=2, max_interval_s=0.08)
    sender = Sender(script, retry)
    sender.send(batch(1))
    until(lambda: len(script.tried) == 7)
    sender.close(deadline_s=0)

    for pause_s, middle_s in zip(script.pauses_s, [0.02, 0.04, 0.08, 0.08], strict=False):
        assert 0.5 * middle_s <= pause_s <= 1.5 * middle_s + 0.1


def test_pauses_go_on_growing_from_batch_to_batch() -> None:
    """So that an outage ends in one try per batch, however many hosts there are."""
    script = Script(lambda _request: AWAY)
    sender = Sender(script, Retry(True, 0.05, randomization_factor=0, multiplier=100))
    sender.send(batch(1))
    until(lambda: script.requests == [b"1", b"1"])
    for seq in range(2, 6):
        sender.send(batch(seq))
        until(lambda seq=seq: script.requests[-1] == b"%d" % seq)  # type: ignore[misc]
        time.sleep(0.1)
    sender.close(deadline_s=0)

    assert script.requests == [b"1", b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("wait_s", [0.5, 1.0])
def test_nothing_is_sent_before_the_collector_wants_it(wait_s: float) -> None:
    """Not a newer batch either; then it is the newest that goes."""
    answers: list[Outcome] = [Refused("503", "busy", again=True, wait_s=wait_s), Taken()]
    script = Script(lambda _request: answers.pop(0))
    sender = Sender(script, STEADY)
    sender.send(batch(1))
    until(lambda: len(script.tried) == 1)
    for seq in (2, 3, 4):
        sender.send(batch(seq))
        # The one before is given up as soon as there is a newer one.
        until(lambda seq=seq: sender.stats.exports == seq - 1)  # type: ignore[misc]
    until(lambda: sender.delivered == 4)
    sender.close(deadline_s=0)

    assert script.requests == [b"1", b"4"]
    assert script.pauses_s[0] >= wait_s - 0.001
    assert sender.stats.failures == {"503": 3}
    assert sender.stats.failed_points == {"503": 9}


def test_a_collector_that_asks_for_a_day_gets_the_totals_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wait has a limit: five minutes."""
    monkeypatch.setattr("xpumeter.export.sender._WAIT_LIMIT_S", 0.1)
    answers: list[Outcome] = [Refused("429", "later", again=True, wait_s=86400.0), Taken()]
    script = Script(lambda _request: answers.pop(0))
    sender = Sender(script, STEADY)
    sender.send(batch(1))
    until(lambda: sender.delivered == 1)
    sender.close(deadline_s=0)

    assert script.pauses_s[0] >= 0.1


def test_closing_does_not_wait_for_what_comes_after_the_deadline() -> None:
    """Whoever asks for an hour does not get the last batch; whoever asks for a moment does."""
    for wait_s, delivered in [(3600.0, 0), (0.2, 1)]:
        answers: list[Outcome] = [Refused("503", "busy", again=True, wait_s=wait_s), Taken()]
        script = Script(lambda _request, answers=answers: answers.pop(0))  # type: ignore[misc]
        sender = Sender(script, STEADY)
        sender.send(batch(1))
        until(lambda script=script: len(script.tried) == 1)  # type: ignore[misc]
        begin_s = time.monotonic()
        sender.close(deadline_s=1)

        assert sender.delivered == delivered
        assert time.monotonic() - begin_s < 1.5
        assert script.closed


def test_a_batch_is_given_up_when_its_time_is_over() -> None:
    """`max_elapsed_time`; without it only the next batch ends the tries."""
    script = Script(lambda _request: AWAY)
    sender = Sender(script, Retry(True, 0.02, 0, 1, max_elapsed_time_s=0.5))
    sender.send(batch(1))
    until(lambda: sender.stats.exports == 1)
    tries = len(script.tried)
    time.sleep(0.1)
    sender.close(deadline_s=0)

    assert sender.stats.failures == {"UNAVAILABLE": 1}
    assert 3 <= tries == len(script.tried) <= 27


def test_without_retry_there_is_one_try() -> None:
    """`retry_on_failure.enabled: false`."""
    script = Script(lambda _request: AWAY)
    sender = Sender(script, Retry(enabled=False))
    sender.send(batch(1))
    until(lambda: sender.stats.exports == 1)
    sender.close(deadline_s=0)

    assert script.requests == [b"1"]


def test_each_cause_of_rejected_points_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever numbers are in it, and until all is well again; counted is every one."""
    messages = iter(["3 old", "7 old", "no tenant", "9 old", "no tenant", "", "2 old"])

    def answer(_request: bytes) -> Taken:
        message = next(messages)
        return Taken(5 if message else 0, message)

    sender = Sender(Script(answer), STEADY)
    for seq in range(1, 8):
        sender.send(batch(seq))
        until(lambda seq=seq: sender.delivered == seq)  # type: ignore[misc]
    sender.close(deadline_s=0)

    assert [line.partition("reason=")[2] for line in caplog.messages] == [
        "'3 old'",
        "'no tenant'",
        "'2 old'",
    ]
    assert sender.stats.rejected_points == 30


def test_a_collector_with_ever_new_causes_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nor the memory."""
    words = iter(range(10**9))
    sender = Sender(Script(lambda _request: Taken(1, "x" * next(words))), STEADY)
    for seq in range(1, 60):
        sender.send(batch(seq))
        until(lambda seq=seq: sender.delivered == seq)  # type: ignore[misc]
    sender.close(deadline_s=0)

    assert len(caplog.messages) == 16


def test_stats_are_one_value() -> None:
    """Read from another thread they always belong together: batches and their points."""
    sender = Sender(Script(lambda _request: Taken()), STEADY)
    wrong: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            stats = sender.stats
            if stats.points != 3 * stats.exports:
                wrong.append(stats)

    reader = threading.Thread(target=read)
    reader.start()
    for seq in range(1, 40):
        sender.send(batch(seq))
        until(lambda seq=seq: sender.delivered == seq)  # type: ignore[misc]
    stop.set()
    reader.join()
    sender.close(deadline_s=0)

    assert wrong == []
    assert sender.stats.requests == sender.stats.exports == 39
