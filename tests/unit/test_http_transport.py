# SPDX-License-Identifier: Apache-2.0
"""OTLP over HTTP, as the specification wants it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from fake_collector import until
from fake_http_collector import FakeHttpCollector, Reply, serving_http, status
from front import fronting, silent
from senders import LATE, batch, sender
from xpumeter.destination import Compression, OtlpHttp
from xpumeter.export.http_transport import HttpTransport
from xpumeter.export.sender import Sender
from xpumeter.export.transport import Refused, Taken

REQUEST = batch().parts[0]


@pytest.fixture
def collector() -> Iterator[FakeHttpCollector]:
    with serving_http() as fake:
        yield fake


@contextmanager
def transport(collector: FakeHttpCollector, **options: Any) -> Iterator[HttpTransport]:
    one = HttpTransport(OtlpHttp(f"http://127.0.0.1:{collector.port}", **options))
    try:
        yield one
    finally:
        one.close()


def outcome(collector: FakeHttpCollector, **options: Any) -> Taken | Refused:
    with transport(collector, **options) as one:
        return one.begin(REQUEST).result()


@pytest.mark.parametrize("compression", list(Compression))
def test_a_request_is_a_post_of_protobuf(
    collector: FakeHttpCollector, compression: Compression
) -> None:
    """To the path of metrics, with the headers that are set; compressed if that is set."""
    headers = (("authorization", "Bearer t"),)
    assert outcome(collector, headers=headers, compression=compression) == Taken()

    assert collector.path == "/v1/metrics"
    assert [request.SerializeToString() for request in collector.taken] == [REQUEST]
    assert collector.headers["content-type"] == "application/x-protobuf"
    assert collector.headers["authorization"] == "Bearer t"
    assert collector.headers["user-agent"].startswith("xpumeter/")
    encoding = "gzip" if compression is Compression.GZIP else None
    assert collector.headers.get("content-encoding") == encoding


def test_one_connection_is_enough(collector: FakeHttpCollector) -> None:
    """It is kept from batch to batch."""
    with fronting(collector.port) as front:
        front.listen()
        one = HttpTransport(OtlpHttp(f"http://127.0.0.1:{front.port}"))
        for _ in range(3):
            assert one.begin(REQUEST).result() == Taken()
        one.close()

        assert front.connections == 1


def test_a_unix_socket_will_do(tmp_path: Path) -> None:
    """The path is that of HTTP on a host of no name."""
    path = tmp_path / "otlp.sock"
    with serving_http(unix=path) as fake:
        one = HttpTransport(OtlpHttp(f"unix://{path}"))
        assert one.begin(REQUEST).result() == Taken()
        one.close()

        assert fake.path == "/v1/metrics"


def test_the_environments_proxy_is_taken(
    collector: FakeHttpCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for any program; and what NO_PROXY names is asked directly."""
    monkeypatch.setenv("http_proxy", f"http://user:p%40ss@127.0.0.1:{collector.port}")
    one = HttpTransport(OtlpHttp("http://collector.example:4318"))
    assert one.begin(REQUEST).result() == Taken()
    one.close()
    assert collector.path == "http://collector.example:4318/v1/metrics"
    assert collector.headers["proxy-authorization"] == "Basic dXNlcjpwQHNz"

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert outcome(collector) == Taken()
    assert collector.path == "/v1/metrics"


@pytest.mark.parametrize(
    "reply",
    [
        Reply(),
        Reply(202, b"", {}),
        Reply(body=b""),
        Reply(body=b"{}", headers={"content-type": "application/json; charset=utf-8"}),
    ],
    ids=["as it should be", "no body", "an empty message", "JSON"],
)
def test_these_are_good_answers(collector: FakeHttpCollector, reply: Reply) -> None:
    """Some are not by the book, and mean no harm."""
    collector.answer = lambda _request: reply

    assert outcome(collector) == Taken()


def test_rejected_points_are_read_from_json_too(collector: FakeHttpCollector) -> None:
    """Numbers of 64 bits are strings there."""
    body = b'{"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "old"}, "new": 1}'
    collector.answer = lambda _request: Reply(
        body=body, headers={"content-type": "application/json"}
    )

    assert outcome(collector) == Taken(3, "old")


@pytest.mark.parametrize(
    ("reply", "refused"),
    [
        (status(400, "no such thing"), Refused("400", "no such thing")),
        (
            status(400, "http: request body too large"),
            Refused("400", "http: request body too large", too_large=True),
        ),
        (Reply(413, b"<h1>no</h1>", {}), Refused("413", "<h1>no</h1>", too_large=True)),
        (status(503, "full"), Refused("503", "full", again=True)),
        (status(429, "", retry_after="7"), Refused("429", "", again=True, wait_s=7.0)),
        (status(503, "", retry_after="soon"), Refused("503", "", again=True)),
        (status(500, "", retry_after="7"), Refused("500", "")),
        (
            status(308, location="https://b/"),
            Refused("308", "redirected to https://b/: name that as the endpoint"),
        ),
        (
            Reply(200, b"<html>", {"content-type": "text/html"}),
            Refused("no_otlp", "text/html: <html>"),
        ),
        (Reply(404, b"a\n" * 400, {}), Refused("404", "a " * 150 + "...")),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Reply) else "",
)
def test_refusals(collector: FakeHttpCollector, reply: Reply, refused: Refused) -> None:
    """What may be tried again, when, and what there is to read."""
    collector.answer = lambda _request: reply

    assert outcome(collector) == refused


def test_retry_after_may_be_a_date(collector: FakeHttpCollector) -> None:
    """One that is over means at once."""
    for ahead_s in (30, -30):
        date = formatdate(time.time() + ahead_s, usegmt=True)
        collector.answer = lambda _request, date=date: status(503, retry_after=date)  # type: ignore[misc]
        refused = outcome(collector)

        assert isinstance(refused, Refused)
        assert refused.wait_s == pytest.approx(max(0, ahead_s), abs=2)


def test_a_redirect_gets_no_token(collector: FakeHttpCollector) -> None:
    """Nothing is sent to where it leads."""
    with serving_http() as elsewhere:
        place = f"http://127.0.0.1:{elsewhere.port}/"
        collector.answer = lambda _request: status(307, location=place)
        outcome(collector, headers=(("authorization", "Bearer t"),))

        assert elsewhere.tries == 0


def test_a_try_ends_when_it_is_cancelled(collector: FakeHttpCollector) -> None:
    """Whether it has begun or not; the next one is as good as any."""
    with fronting(collector.port) as front:
        front.mode = silent
        front.listen()
        one = HttpTransport(OtlpHttp(f"http://127.0.0.1:{front.port}"))
        begin_s = time.monotonic()
        hanging = one.begin(REQUEST)
        threading.Timer(0.1, hanging.cancel).start()
        assert hanging.result() == Refused("closing", "given up")

        early = one.begin(REQUEST)
        early.cancel()
        assert early.result() == Refused("closing", "given up")
        assert time.monotonic() - begin_s < 5

        front.mode = None
        assert one.begin(REQUEST).result() == Taken()
        one.close()


def test_closing_gives_up_a_try_that_hangs_for_the_newest(collector: FakeHttpCollector) -> None:
    """As over gRPC."""
    release = threading.Event()

    def hang_once(_request: object) -> Reply:
        if collector.tries == 1:
            release.wait(10)
        return Reply()

    collector.answer = hang_once
    one = sender(OtlpHttp(f"http://127.0.0.1:{collector.port}"), LATE)
    one.send(batch(1))
    until(lambda: collector.tries == 1)
    one.send(batch(2))
    one.close(deadline_s=5)
    release.set()

    assert one.delivered == 2


def test_closing_ends_within_its_deadline(collector: FakeHttpCollector) -> None:
    """A Collector that hangs does not hold up the end."""
    with fronting(collector.port) as front:
        front.mode = silent
        front.listen()
        one = Sender(HttpTransport(OtlpHttp(f"http://127.0.0.1:{front.port}")))
        one.send(batch())
        begin_s = time.monotonic()
        one.close(deadline_s=0.3)

        assert time.monotonic() - begin_s < 2
        assert (one.delivered, one.stats.failed) == (0, 1)
