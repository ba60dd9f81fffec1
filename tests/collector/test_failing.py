# SPDX-License-Identifier: Apache-2.0
"""Ways in which a Collector fails, each over a real socket: what is lost is time, and nothing else.

These are fake Collectors: the real one does not fail when it is told to.
"""

import logging
import time
from pathlib import Path

import pytest

from failures import WAIT_S, WAYS, End, Way
from fake_collector import until
from scene import GRPC, HTTP, ca_file, scene
from senders import batch, sender
from xpumeter.destination import Destination, GrpcTls, HttpTls, OtlpGrpc, OtlpHttp, Retry

CASES = [
    pytest.param(way, protocol, id=f"{protocol}: {way.name}")
    for way in WAYS
    for protocol in (GRPC, HTTP)
    if way.state(protocol)
]
# In a period of ten seconds these would be one second and ten.
RETRY = Retry(initial_interval_s=0.03, multiplier=1)
TIMEOUT_S = 0.25


def destination(protocol: str, endpoint: str, authority: str) -> Destination:
    if protocol == GRPC:
        return OtlpGrpc(endpoint, GrpcTls(ca_file=authority), timeout_s=TIMEOUT_S)
    return OtlpHttp(endpoint, tls=HttpTls(ca_file=authority), timeout_s=TIMEOUT_S)


@pytest.mark.parametrize(("way", "protocol"), CASES)
def test_the_newest_totals_arrive_when_it_is_back(
    way: Way, protocol: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits meanwhile, two batches at most are held, and the log says once what it is."""
    caplog.set_level(logging.INFO, "xpumeter")
    with scene(protocol) as failing:
        failing.begin(way.set_up)
        one = sender(destination(protocol, failing.endpoint, ca_file(tmp_path)), RETRY)
        try:
            one.send(batch(1, owners=2, calls=1))
            until(lambda: bool(caplog.messages))
            begin_s = time.monotonic()
            if way.end is End.AGAIN:
                until(lambda: one.stats.requests >= 2)
                assert one.stats.exports == 0
            elif way.end is End.NEXT:
                until(lambda: one.stats.failures == {way.state(protocol): 1})
                assert one.stats.requests == 1
            elif way.end is End.ARRIVES:
                until(lambda: one.delivered == 1)

            for seq in range(2, 50):
                one.send(batch(seq, owners=2, calls=seq))
            assert time.monotonic() - begin_s < 10
            failing.heal()
            newest = batch(50, owners=2, calls=50)
            one.send(newest)
            until(lambda: one.delivered == 50, seconds=20)
            if way.end is End.WAITS:
                assert time.monotonic() - begin_s > 0.9 * WAIT_S
                assert failing.collector.tries == 2
        finally:
            one.close(deadline_s=0.1)

    assert failing.collector.taken[-1].SerializeToString() == newest.parts[0]
    assert f"state={way.state(protocol)} " in f"{caplog.messages[0]} "
    assert caplog.messages[-1].endswith("state=OK")
    expected = set() if way.end is End.ARRIVES else {way.state(protocol)}
    assert expected <= set(one.stats.failures)
