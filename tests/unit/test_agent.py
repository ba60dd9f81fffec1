# SPDX-License-Identifier: Apache-2.0
"""How the agent is told to stop: at once, whenever it comes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from xpumeter.agent import Stop

# Signals itself from another thread while the main thread does nothing but wait.
STORM = """
import os, signal, threading, time
from xpumeter.agent import Stop

stop = Stop()
def storm():
    for _ in range(20_000):
        os.kill(os.getpid(), signal.SIGTERM)
thread = threading.Thread(target=storm)
thread.start()
while thread.is_alive():
    stop.wait(0.0001)
print(bool(stop))
"""


@pytest.fixture
def stop() -> Iterator[Stop]:
    """A Stop; this process's signals are as before afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield Stop()
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_that_came_before_the_wait_ends_it(stop: Stop) -> None:
    """No wait begins after the signal and sleeps for its whole time."""
    os.kill(os.getpid(), signal.SIGTERM)
    began = time.monotonic()

    assert stop.wait(30)
    assert time.monotonic() - began < 5
    assert stop


def test_without_a_signal_the_wait_is_over_in_time(stop: Stop) -> None:
    """It sleeps, and says that there is no reason to stop."""
    assert not stop.wait(0.01)
    assert not stop


def test_signals_during_waits_never_lock_the_agent_up() -> None:
    """The handler takes no lock that the wait may hold."""
    ended = subprocess.run(
        [sys.executable, "-c", STORM], capture_output=True, text=True, timeout=60, check=True
    )

    assert ended.stdout == "True\n"
