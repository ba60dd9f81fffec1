# SPDX-License-Identifier: Apache-2.0
"""Ways in which a Collector fails, over both protocols, and what is seen of them.

The table in docs/operations.md is `table()`; tests/unit/test_failing_collectors.py tries each.
"""

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from enum import StrEnum

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceResponse,
)

from fake_collector import Request, Response, refuse
from fake_http_collector import Reply, status
from front import Mode, half_close, hang_up, reset, says, silent
from scene import GRPC, Break, Scene, authority, good_tls, other_authority, tls

HTML = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 5\r\n\r\nHello"
# SETTINGS of HTTP/2, with which a server of gRPC begins.
HTTP2 = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 9\r\n\r\n"
TOO_LARGE = "grpc: received message larger than max (9 vs. 4)"
UNAVAILABLE, EXHAUSTED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED
WAIT_S = 1.0


def _expired() -> ssl.SSLContext:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    return tls(authority().issue_cert("127.0.0.1", not_after=yesterday))


def _front(mode: Mode) -> Break:
    def set_up(scene: Scene) -> None:
        scene.front.mode = mode

    return set_up


def _tls(make: Callable[[], ssl.SSLContext | None]) -> Break:
    def set_up(scene: Scene) -> None:
        scene.secure = True
        scene.front.tls = make()

    return set_up


def _tls_unexpected(scene: Scene) -> None:
    scene.front.tls = good_tls()


def _answers(code: grpc.StatusCode, text: str, reply: Reply, retry_s: float | None = None) -> Break:
    def set_up(scene: Scene) -> None:
        if scene.grpc:
            scene.grpc.answer = refuse(code, text, retry_s=retry_s)
        if scene.http:
            scene.http.answer = lambda _request: reply

    return set_up


def _grpc_says(answer: ExportMetricsServiceResponse) -> Break:
    body = answer.SerializeToString()

    def set_up(scene: Scene) -> None:
        if scene.grpc:
            scene.grpc.answer = lambda _request, _context: answer
        if scene.http:
            scene.http.answer = lambda _request: Reply(body=body)

    return set_up


def _too_large(scene: Scene) -> None:
    """It takes one Resource at a time."""

    def by_grpc(request: Request, context: grpc.ServicerContext) -> Response | bytes:
        if len(request.resource_metrics) > 1:
            return refuse(EXHAUSTED, TOO_LARGE)(request, context)
        return ExportMetricsServiceResponse()

    if scene.grpc:
        scene.grpc.answer = by_grpc
    if scene.http:
        scene.http.answer = lambda request: (
            status(413) if len(request.resource_metrics) > 1 else Reply()
        )


def _in_a_moment() -> str:
    # A date has whole seconds: at least one of them is left.
    return format_datetime(datetime.now(UTC) + timedelta(seconds=WAIT_S + 1), usegmt=True)


class End(StrEnum):
    """What becomes of a batch."""

    AGAIN = "is tried again"
    WAITS = "is tried again, as late as it was asked to"
    NEXT = "is given up for the next one"
    ARRIVES = "arrives"


AGAIN, WAITS, NEXT, ARRIVES = End


@dataclass(frozen=True, slots=True)
class Way:
    """One way to fail.

    Attributes:
        name: What the Collector does.
        set_up: Makes a good one do that; None: it is not there.
        grpc, http: What the log calls it, and `error.type`; empty where it cannot be.
        end: What becomes of the batch.
    """

    name: str
    set_up: Break | None
    grpc: str
    http: str
    end: End

    def state(self, protocol: str) -> str:
        """What the log calls it."""
        return self.grpc if protocol == GRPC else self.http


def table() -> str:
    """The ways as a table, for docs/operations.md."""
    rows = [f"| {way.name} | {code(way.grpc)} | {code(way.http)} | {way.end} |" for way in WAYS]
    head = "| the Collector | gRPC | HTTP | the batch |"
    return "\n".join([head, "| --- | --- | --- | --- |", *rows])


def code(state: str) -> str:
    return f"`{state}`" if state else "-"


def _stranger() -> ssl.SSLContext:
    return tls(other_authority().issue_cert("127.0.0.1"))


def _namesake() -> ssl.SSLContext:
    return tls(authority().issue_cert("elsewhere.example"))


def _distrustful() -> ssl.SSLContext:
    return tls(authority().issue_cert("127.0.0.1"), client_ca=authority())


def _ends_early(scene: Scene) -> None:
    def mode(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(HEAD if scene.http else HTTP2)

    scene.front.mode = mode


def _other_protocol(scene: Scene) -> None:
    scene.front.mode = says(HTTP2 if scene.http else HEAD)


def _no_message(scene: Scene) -> None:
    if scene.grpc:
        scene.grpc.answer = lambda _request, _context: b"\xff\xff"
    if scene.http:
        scene.http.answer = lambda _request: Reply(body=b"\xff\xff")


BIG = ExportMetricsServiceResponse(
    partial_success=ExportMetricsPartialSuccess(error_message="x" * (2 << 20))
)
PARTIAL = ExportMetricsServiceResponse(
    partial_success=ExportMetricsPartialSuccess(rejected_data_points=1, error_message="old")
)
CODE = grpc.StatusCode


def _redirect(scene: Scene) -> None:
    if scene.http:
        scene.http.answer = lambda _request: status(307, location="http://127.0.0.1:9/v1/metrics")


def _asks_to_wait(code: grpc.StatusCode, http: int, *, date: bool = False) -> Break:
    def set_up(scene: Scene) -> None:
        wait = _in_a_moment() if date else str(int(WAIT_S))
        reply = status(http, "later", retry_after=wait)
        _answers(code, "later", reply, retry_s=WAIT_S)(scene)

    return set_up


WAYS = [
    Way("nobody listens", None, "UNAVAILABLE", "connection", AGAIN),
    Way(
        "it takes the connection and says nothing",
        _front(silent),
        "DEADLINE_EXCEEDED",
        "timeout",
        AGAIN,
    ),
    Way("it hangs up at once", _front(hang_up), "UNAVAILABLE", "connection", AGAIN),
    Way(
        "it resets the connection after the head", _front(reset), "UNAVAILABLE", "connection", AGAIN
    ),
    Way(
        "it closes its half of the connection",
        _front(half_close),
        "UNAVAILABLE",
        "connection",
        AGAIN,
    ),
    Way(
        "it says a byte at a time",
        _front(says(HEAD, each_s=0.05)),
        "DEADLINE_EXCEEDED",
        "timeout",
        AGAIN,
    ),
    Way("it ends in the middle of the answer", _ends_early, "UNAVAILABLE", "connection", AGAIN),
    Way(
        "it speaks noise", _front(says(b"\xff" * 64 + b"\r\n")), "UNAVAILABLE", "connection", AGAIN
    ),
    Way("it speaks the other protocol", _other_protocol, "UNAVAILABLE", "timeout", AGAIN),
    Way("it is a web page", _front(says(HTML)), "", "no_otlp", NEXT),
    Way("its answer is no message of OTLP", _no_message, "no_otlp", "no_otlp", NEXT),
    Way("its answer has 2 MiB", _grpc_says(BIG), "RESOURCE_EXHAUSTED", "no_otlp", NEXT),
    Way(
        "it speaks TLS where none is expected", _tls_unexpected, "UNAVAILABLE", "connection", AGAIN
    ),
    Way("it speaks no TLS where it is expected", _tls(lambda: None), "UNAVAILABLE", "tls", AGAIN),
    Way("its certificate is of an unknown authority", _tls(_stranger), "UNAVAILABLE", "tls", AGAIN),
    Way("its certificate has expired", _tls(_expired), "UNAVAILABLE", "tls", AGAIN),
    Way("its certificate is another host's", _tls(_namesake), "UNAVAILABLE", "tls", AGAIN),
    Way("it wants a certificate of the agent", _tls(_distrustful), "UNAVAILABLE", "tls", AGAIN),
    Way(
        "its memory limiter refuses",
        _answers(UNAVAILABLE, "data refused due to high memory usage", status(503)),
        "UNAVAILABLE",
        "503",
        AGAIN,
    ),
    Way("it says when to come again", _asks_to_wait(UNAVAILABLE, 503), "UNAVAILABLE", "503", WAITS),
    Way("it says so with a date", _asks_to_wait(UNAVAILABLE, 429, date=True), "", "429", WAITS),
    Way(
        "its quota is used up, until later",
        _asks_to_wait(EXHAUSTED, 429),
        "RESOURCE_EXHAUSTED",
        "429",
        WAITS,
    ),
    Way(
        "its quota is used up",
        _answers(EXHAUSTED, "quota", status(429)),
        "RESOURCE_EXHAUSTED",
        "",
        NEXT,
    ),
    Way("too many requests", _answers(EXHAUSTED, "quota", status(429)), "", "429", AGAIN),
    Way(
        "a proxy finds nobody behind it",
        _answers(UNAVAILABLE, "", status(502)),
        "UNAVAILABLE",
        "502",
        AGAIN,
    ),
    Way(
        "it takes the batch for wrong",
        _answers(CODE.INVALID_ARGUMENT, "no", status(400, "no")),
        "INVALID_ARGUMENT",
        "400",
        NEXT,
    ),
    Way(
        "it does not know the token",
        _answers(CODE.UNAUTHENTICATED, "no", status(401)),
        "UNAUTHENTICATED",
        "401",
        NEXT,
    ),
    Way(
        "it has no metrics",
        _answers(CODE.UNIMPLEMENTED, "no", status(404)),
        "UNIMPLEMENTED",
        "404",
        NEXT,
    ),
    Way("it has a fault", _answers(CODE.INTERNAL, "oops", status(500)), "INTERNAL", "500", NEXT),
    Way("it redirects to another place", _redirect, "", "307", NEXT),
    Way("it rejects points", _grpc_says(PARTIAL), "PARTIAL_SUCCESS", "PARTIAL_SUCCESS", ARRIVES),
    Way("it takes less at once", _too_large, "OK", "OK", ARRIVES),
]
