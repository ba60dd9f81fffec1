# SPDX-License-Identifier: Apache-2.0
"""A day without a Collector, on a clock that a test moves."""

import resource
import time
from pathlib import Path

import pytest

from fake_collector import until
from otlp_samples import SECOND, new, series
from scene import GRPC, HTTP, scene
from senders import sender
from xpumeter.destination import OtlpGrpc, OtlpHttp
from xpumeter.model.owners import Owner
from xpumeter.model.series import Series, Snapshot

PERIOD_S, HOUR_S, DAY_S = 60, 3600, 86400
LIVE = 20
GROWTH_BYTES = 2 << 20


def rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def shown(period: int) -> tuple[Series, ...]:
    """Some containers stay; in each period one ends and another begins."""
    stay = [series(Owner(cgroup=f"/stays/{n}"), calls=period + 1) for n in range(LIVE)]
    ended = series(Owner(cgroup=f"/goes/{period - 1}"), calls=9, ended=True)
    return (*stay, ended, series(Owner(cgroup=f"/goes/{period}"), calls=9))


@pytest.mark.parametrize("protocol", [GRPC, HTTP])
def test_memory_is_flat_for_a_day_and_the_newest_totals_arrive(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,440 batches, and as many containers that came and went; none arrives; then it is back."""
    # What is kept of containers that are gone is bounded by this; here it is reached in minutes.
    monkeypatch.setattr("xpumeter.export.messages._HELD", 100)
    messages = new(linger_s=60)
    with scene(protocol) as dead:
        kind = OtlpGrpc if protocol == GRPC else OtlpHttp
        one = sender(kind(dead.endpoint))
        used: dict[int, int] = {}
        longest_s = 0.0
        for at_s in range(0, DAY_S, PERIOD_S):
            period = at_s // PERIOD_S
            at_ns = (1_700_000_000 + at_s) * SECOND
            snapshot = Snapshot(at_ns, at_ns, shown(period), (), {})
            batch = messages.update(snapshot, delivered=one.delivered)
            begin_s = time.monotonic()
            one.send(batch)
            longest_s = max(longest_s, time.monotonic() - begin_s)
            until(lambda tries=period + 1: one.stats.requests >= tries)  # type: ignore[misc]
            if at_s % HOUR_S == 0:
                used[at_s // HOUR_S] = rss_bytes()
        assert one.delivered == 0

        dead.heal()
        for _ in range(40):
            if one.delivered:
                break
            at_ns += PERIOD_S * SECOND
            one.send(messages.update(Snapshot(at_ns, at_ns, shown(period), (), {}), delivered=0))
            time.sleep(0.5)  # instead of a minute: gRPC tries to connect once a second at most
        one.close(deadline_s=1)
        assert one.delivered

    print(f"{protocol}: RSS by hour, MiB: {[each >> 20 for each in used.values()]}")
    assert used[23] - used[1] < GROWTH_BYTES
    assert longest_s < 1
    newest = dead.collector.taken[-1]
    totals = [
        point.as_int
        for each in newest.resource_metrics
        for metric in each.scope_metrics[0].metrics
        for point in metric.sum.data_points
    ]
    assert totals.count(period + 1) == LIVE
    assert len(newest.resource_metrics) <= LIVE + 1 + 101
