# SPDX-License-Identifier: Apache-2.0
"""An HTTP server that takes OTLP metrics and answers as a test tells it to."""

import gzip
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

from google.rpc.status_pb2 import Status

from fake_collector import TAKEN, Request


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered."""

    status: int = 200
    body: bytes = TAKEN.SerializeToString()
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"content-type": "application/x-protobuf"}
    )


Answer = Callable[[Request], Reply]


def status(code: int, text: str = "", **headers: str) -> Reply:
    """An answer with an error, as the specification wants it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = Status(message=text).SerializeToString()
    return Reply(code, body, {"content-type": "application/x-protobuf", **named})


class FakeHttpCollector:
    """Answers as told; `taken` are the requests that it answered with 2xx."""

    def __init__(self) -> None:
        self.answer: Answer = lambda _request: Reply()
        self.taken: list[Request] = []
        self.headers: Mapping[str, str] = {}
        self.path = ""
        self.tries = 0
        self.port = 0

    @property
    def resources(self) -> int:
        """How many Resources were taken in all."""
        return sum(len(request.resource_metrics) for request in self.taken)


def _handler(fake: FakeHttpCollector) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            request = Request.FromString(body)
            fake.tries += 1
            fake.path = self.path
            fake.headers = {name.lower(): value for name, value in self.headers.items()}
            reply = fake.answer(request)
            if 200 <= reply.status < 300:
                fake.taken.append(request)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_args: Any) -> None:
            pass

        def address_string(self) -> str:
            return "-"

    return Handler


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what tests are about."""


class _UnixServer(ThreadingUnixStreamServer):
    daemon_threads = True


@contextmanager
def serving_http(unix: Path | None = None) -> Iterator[FakeHttpCollector]:
    fake = FakeHttpCollector()
    server: _Server | _UnixServer
    if unix:
        server = _UnixServer(str(unix), _handler(fake))
    else:
        server = _Server(("127.0.0.1", 0), _handler(fake))
        fake.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=[0.02])
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
