# SPDX-License-Identifier: Apache-2.0
"""One line for each thing that takes time, on standard error."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

STILL_AT_IT_S = 15


def say(text: str) -> None:
    """Print one line at once."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say how long the block took once it is done; every 15 s that it still runs."""
    begin = time.monotonic()
    done = threading.Event()

    def remind() -> None:
        while not done.wait(STILL_AT_IT_S):
            say(f"  {what} ... {time.monotonic() - begin:.0f} s so far")

    reminder = threading.Thread(target=remind, daemon=True)
    reminder.start()
    try:
        yield
    except BaseException:
        say(f"  {what}: stopped after {time.monotonic() - begin:.1f} s")
        raise
    finally:
        done.set()
        reminder.join()
    say(f"  {what}: {time.monotonic() - begin:.1f} s")
