# SPDX-License-Identifier: Apache-2.0
"""Health is the loop's: neither a Collector nor a runtime has a part in it."""

from xpumeter.errors import NotAttached
from xpumeter.health import Health


class Clock:
    """Seconds, moved by hand; and counts that may go away."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.gone = ""

    def check(self) -> None:
        if self.gone:
            raise NotAttached(self.gone)


def test_it_is_ready_from_the_first_collection_on() -> None:
    """Alive at once; ready when there is something to be had."""
    clock = Clock()
    health = Health(10, clock.check, clock=lambda: clock.now_s)

    assert health.alive() == ""
    assert health.ready() == "nothing was collected yet"
    health.collected()
    assert health.ready() == ""


def test_a_loop_that_stands_still_is_not_alive() -> None:
    """Three periods and half a minute; it is alive again when it goes on."""
    clock = Clock()
    health = Health(10, clock.check, clock=lambda: clock.now_s)
    health.collected()

    clock.now_s += 60
    assert health.alive() == ""
    clock.now_s += 1
    assert health.alive() == "nothing was collected for 61 s, 60 s at most"
    assert health.ready() == health.alive()
    health.collected()
    assert (health.alive(), health.ready()) == ("", "")


def test_a_first_collection_that_never_ends_is_noticed() -> None:
    """The loop may hang before it has gone round once."""
    clock = Clock()
    health = Health(1, clock.check, clock=lambda: clock.now_s)

    clock.now_s += 34
    assert health.alive() == "nothing was collected for 34 s, 33 s at most"


def test_counts_that_are_gone_are_the_reason() -> None:
    """Detached between two periods: the next look would end the agent, the probe knows before."""
    clock = Clock()
    health = Health(3600, clock.check, clock=lambda: clock.now_s)
    health.collected()

    clock.gone = "nothing is attached at /sys/fs/bpf/xpumeter"
    assert health.alive() == health.ready() == clock.gone
