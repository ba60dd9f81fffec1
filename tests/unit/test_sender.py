# SPDX-License-Identifier: Apache-2.0
"""Whatever a Collector does: nobody waits for it, memory is bounded, the newest totals arrive."""

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceResponse,
)

from fake_collector import TAKEN, FakeCollector, Request, Response, refuse, serving, until
from senders import LATE, SOON, batch, grpc_sender, sending
from xpumeter.export.messages import Batch
from xpumeter.model.exports import ExportStats


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    with serving() as fake:
        yield fake


def test_a_batch_arrives_as_it_is(collector: FakeCollector) -> None:
    """The bytes that were handed over, once, and its number is known as delivered."""
    with sending(collector.endpoint) as sender:
        sender.send(sent := batch(5))
        until(lambda: sender.delivered == 5)

        assert [request.SerializeToString() for request in collector.taken] == list(sent.parts)
        until(lambda: sender.stats.exports == 1)
        stats = sender.stats
        assert stats == ExportStats(
            exports=1,
            requests=1,
            sent_bytes=len(sent.parts[0]),
            points=1,
            duration_s=stats.duration_s,
            last_duration_s=stats.duration_s,
        )
        assert 0 < stats.duration_s < 5


def test_headers_go_with_every_request(collector: FakeCollector) -> None:
    """A token, a tenant."""
    with sending(collector.endpoint, headers=(("x-scope-orgid", "team"),)) as sender:
        sender.send(batch())
        until(lambda: sender.delivered == 1)

    assert collector.headers["x-scope-orgid"] == "team"


def test_a_unix_socket_will_do(tmp_path: Path) -> None:
    """`unix:///path` is an endpoint too."""
    path = tmp_path / "otlp.sock"
    with serving(f"unix:{path}"), sending(f"unix://{path}") as sender:
        sender.send(batch())
        until(lambda: sender.delivered == 1)


def test_a_collector_that_hangs_stops_nothing_and_the_newest_wins() -> None:
    """`send` returns at once; of all that came meanwhile only the last is sent."""
    with serving() as collector:
        release = threading.Event()

        def hang(_request: Request, _context: grpc.ServicerContext) -> Response | bytes:
            release.wait(10)
            return TAKEN

        collector.answer = hang
        with sending(collector.endpoint, timeout_s=8) as sender:
            sender.send(batch(1))
            until(lambda: collector.tries == 1)
            begin = time.monotonic()
            for seq in range(2, 1001):
                sender.send(Batch(seq, batch(seq).parts if seq == 1000 else (b"never",)))
            assert time.monotonic() - begin < 5
            release.set()
            until(lambda: sender.delivered == 1000)

        assert collector.tries == 2


def test_a_try_ends_at_its_timeout(collector: FakeCollector) -> None:
    """A hanging Collector that comes to life gets the same batch."""
    release = threading.Event()

    def hang(_request: Request, _context: grpc.ServicerContext) -> Response | bytes:
        release.wait(10)
        return TAKEN

    collector.answer = hang
    with sending(collector.endpoint, timeout_s=0.2, retry=SOON) as sender:
        sender.send(batch())
        until(lambda: collector.tries >= 1)
        time.sleep(0.3)
        assert sender.delivered == 0
        release.set()
        until(lambda: sender.delivered == 1)


def test_a_newer_batch_does_not_wait_for_the_pause(collector: FakeCollector) -> None:
    """After UNAVAILABLE the same batch is tried again later, a newer one at once."""
    collector.answer = refuse(grpc.StatusCode.UNAVAILABLE, "data refused due to high memory usage")
    with sending(collector.endpoint, retry=LATE) as sender:
        sender.send(batch(1))
        until(lambda: collector.tries == 1)
        collector.answer = lambda _request, _context: TAKEN
        sender.send(batch(2))
        until(lambda: sender.delivered == 2)

        assert (sender.stats.exports, sender.stats.failures) == (2, {"UNAVAILABLE": 1})
        assert (sender.stats.points, sender.stats.failed_points) == (1, {"UNAVAILABLE": 1})


def test_a_collector_that_was_away_gets_the_batch_by_itself(collector: FakeCollector) -> None:
    """No newer batch is needed."""
    collector.answer = refuse(grpc.StatusCode.UNAVAILABLE, "later")
    with sending(collector.endpoint, retry=SOON) as sender:
        sender.send(batch(1))
        until(lambda: collector.tries == 4)
        collector.answer = lambda _request, _context: TAKEN
        until(lambda: sender.delivered == 1)

        assert (sender.stats.exports, sender.stats.failed) == (1, 0)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "no"),
        (grpc.StatusCode.UNAUTHENTICATED, "who are you"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "quota"),
    ],
)
def test_what_is_refused_for_good_is_not_tried_again(
    collector: FakeCollector, code: grpc.StatusCode, text: str
) -> None:
    """One failure, one try; the next batch has its chance."""
    collector.answer = refuse(code, text)
    with sending(collector.endpoint) as sender:
        sender.send(batch(1))
        until(lambda: sender.stats.failed == 1)
        time.sleep(0.1)
        assert (collector.tries, sender.delivered) == (1, 0)
        collector.answer = lambda _request, _context: TAKEN
        sender.send(batch(2))
        until(lambda: sender.delivered == 2)


def test_a_fault_of_ours_does_not_end_the_exports(
    collector: FakeCollector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread lives on: the batch failed, it is said, and the next one arrives."""
    with sending(collector.endpoint) as sender:
        with monkeypatch.context() as broken:
            broken.setattr(sender, "_try", lambda _part: 1 / 0)
            sender.send(batch(1))
            until(lambda: sender.stats.failed == 1)
        sender.send(batch(2))
        until(lambda: sender.delivered == 2)

    assert "state=FAULT reason=" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_partial_success_is_read(
    collector: FakeCollector, caplog: pytest.LogCaptureFixture
) -> None:
    """The batch counts as delivered, the points as rejected, and the reason is logged once."""
    collector.answer = lambda _request, _context: ExportMetricsServiceResponse(
        partial_success=ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too old")
    )
    with sending(collector.endpoint) as sender:
        for seq in (1, 2):
            sender.send(batch(seq))
            until(lambda seq=seq: sender.delivered == seq)  # type: ignore[misc]

        assert (sender.stats.rejected_points, sender.stats.failed) == (6, 0)
    assert [line for line in caplog.messages if "too old" in line] == [
        f"event=collector endpoint={collector.endpoint} state=PARTIAL_SUCCESS reason='too old'"
    ]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "grpc: received message larger than max (9 vs. 4)"),
        (grpc.StatusCode.OUT_OF_RANGE, "Error, decoded message length too large: found 9 bytes"),
    ],
)
def test_a_message_that_is_too_large_is_halved(
    collector: FakeCollector, code: grpc.StatusCode, text: str
) -> None:
    """Down to what the Collector takes: every Resource arrives, once."""

    def answer(request: Request, context: grpc.ServicerContext) -> Response | bytes:
        return refuse(code, text)(request, context) if len(request.resource_metrics) > 3 else TAKEN

    collector.answer = answer
    with sending(collector.endpoint) as sender:
        sender.send(batch(owners=10))
        until(lambda: sender.delivered == 1)

        assert collector.resources == 10
        assert (sender.stats.exports, sender.stats.failed) == (1, 0)


def test_one_resource_that_is_too_large_is_one_failure(collector: FakeCollector) -> None:
    """It cannot be halved: no endless tries."""
    collector.answer = refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max (9 vs. 4)")
    with sending(collector.endpoint) as sender:
        sender.send(batch())
        until(lambda: sender.stats.failed == 1)

        assert (collector.tries, sender.delivered) == (1, 0)


def test_trouble_is_logged_when_it_begins_and_when_it_ends(
    collector: FakeCollector, caplog: pytest.LogCaptureFixture
) -> None:
    """Not for each try, not for each batch."""
    caplog.set_level(logging.INFO)
    collector.answer = refuse(grpc.StatusCode.UNAVAILABLE, "later")
    with sending(collector.endpoint) as sender:
        for seq in range(1, 6):
            sender.send(batch(seq))
            until(lambda seq=seq: collector.tries >= seq)  # type: ignore[misc]
        collector.answer = lambda _request, _context: TAKEN
        sender.send(batch(6))
        until(lambda: sender.delivered == 6)

    assert [line.split(" ", 2)[2] for line in caplog.messages] == [
        "state=UNAVAILABLE reason='later'",
        "state=OK",
    ]


def test_closing_sends_what_waits(collector: FakeCollector) -> None:
    """The last totals arrive."""
    sender = grpc_sender(collector.endpoint)
    sender.send(batch(9))
    sender.close(deadline_s=5)

    assert sender.delivered == 9
    assert len(collector.taken) == 1


def test_closing_gives_up_a_try_that_hangs_for_the_newest(collector: FakeCollector) -> None:
    """The time that is left belongs to the last batch, which has all that the others have."""
    release = threading.Event()

    def hang_once(_request: Request, _ctx: grpc.ServicerContext) -> ExportMetricsServiceResponse:
        if collector.tries == 1:
            release.wait(10)
        return TAKEN

    collector.answer = hang_once
    sender = grpc_sender(collector.endpoint)
    sender.send(batch(1))
    until(lambda: collector.tries == 1)
    sender.send(batch(2))
    sender.close(deadline_s=5)
    release.set()

    assert sender.delivered == 2


@pytest.mark.parametrize("listens", [True, False])
def test_closing_ends_within_its_deadline(collector: FakeCollector, listens: bool) -> None:
    """A Collector that hangs or is not there does not hold up the end."""
    release = threading.Event()

    def hang(_request: Request, _context: grpc.ServicerContext) -> Response | bytes:
        release.wait(10)
        return TAKEN

    collector.answer = hang
    sender = grpc_sender(collector.endpoint if listens else "http://127.0.0.1:1")
    sender.send(batch())
    begin = time.monotonic()
    sender.close(deadline_s=0.5)
    release.set()

    assert time.monotonic() - begin < 5
    assert (sender.delivered, sender.stats.failed) == (0, 1)
