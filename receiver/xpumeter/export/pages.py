# SPDX-License-Identifier: Apache-2.0
"""A few pages over HTTP, from a thread of its own: for probes and scrapes, and nothing else.

Python's own server has a thread for each client and waits for slow ones as long as they like. Here
a request has one deadline in all, and when too many are there the oldest goes: whoever sends or
reads slowly cannot keep a probe out, nor take more memory than the limits below.
"""

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit

from xpumeter.errors import HostError

_log = logging.getLogger(__name__)

_HEAD_BYTES = 8 << 10
"""Request line and headers; there are no bodies."""

_CONNECTIONS = 32

_DEADLINE_S = 10.0
"""For a request and its answer; scrapes of Prometheus time out after ten seconds too."""

_CHUNK_BYTES = 64 << 10

_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page says."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": _PLAIN})


@dataclass(frozen=True, slots=True)
class Page:
    """One page: `answer` gets the request's headers, names in lower case.

    A `slow` one is answered beside the others, one at a time; any other must not wait.
    """

    answer: Callable[[Mapping[str, str]], Answer]
    slow: bool = False


def listen(address: tuple[str, int], key: str) -> socket.socket:
    """A listening socket; an empty host is every address, IPv4 and IPv6.

    Raises:
        HostError: Nobody can listen there; the message names `key`, the setting.
    """
    host, port = address
    try:
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_CONNECTIONS
            )
        family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_CONNECTIONS)
    except OSError as error:
        # Python adds the address to some of the kernel's words; a name that is none has its own.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror
        raise HostError(
            f"{key}: nobody can listen on {host or '*'}:{port}: {reason}",
            hint="name another address there; `ss -ltnp` shows who listens on this one",
        ) from error


class Pages:
    """Serves pages by their path on a listening socket, until it is closed."""

    def __init__(self, listener: socket.socket, pages: Mapping[str, Page]) -> None:
        self.address: tuple[str, int] = listener.getsockname()[:2]
        self._listener = listener
        self._pages = pages
        self._connections: dict[asyncio.Task[None], None] = {}
        self._fault = ""
        self._beside = ThreadPoolExecutor(1, "xpumeter-page")
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="xpumeter-http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and leave those that still wait without an answer."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()
        self._beside.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._listen())

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._take, sock=self._listener, limit=_HEAD_BYTES)
        await self._closing.wait()
        server.close()
        for connection in list(self._connections):
            connection.cancel()
        # Also those that are let in just now, and turned away.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        await asyncio.sleep(0)  # sockets are closed one step later

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        if connection is None or self._closing.is_set():
            writer.transport.abort()
            return
        self._connections[connection] = None
        if len(self._connections) > _CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.cancel()
        try:
            async with asyncio.timeout(_DEADLINE_S):
                await self._serve(reader, writer)
        except (TimeoutError, OSError, asyncio.CancelledError):
            # Closing in peace would wait for a client that reads nothing.
            writer.transport.abort()
        finally:
            writer.close()
            self._connections.pop(connection, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            answer, with_body = _plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), True
        else:
            answer, with_body = await self._answer(head.decode("latin-1"))
        headers = {
            **answer.headers,
            "Content-Length": str(len(answer.body)),
            "Connection": "close",
        }
        lines = [f"HTTP/1.1 {answer.status.value} {answer.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        body = memoryview(answer.body if with_body else b"")
        for start in range(0, len(body), _CHUNK_BYTES):
            # One piece after the other, or all of it would be copied into the client's buffer.
            writer.write(body[start : start + _CHUNK_BYTES])
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def _answer(self, head: str) -> tuple[Answer, bool]:
        """What to say to a request, and whether its body is wanted."""
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        target, _, version = rest.partition(" ")
        if not version.startswith("HTTP/1.") or not target:
            return _plain(HTTPStatus.BAD_REQUEST), True
        with contextlib.suppress(ValueError):  # no URL; then no page has it as its path either
            target = urlsplit(target).path
        page = self._pages.get(target)
        if page is None:
            return _plain(HTTPStatus.NOT_FOUND, "pages: " + " ".join(self._pages)), True
        if method not in {"GET", "HEAD"}:
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED, Allow="GET, HEAD"), True
        headers = {
            name.strip().lower(): value.strip()
            for name, colon, value in (line.partition(":") for line in lines)
            if colon
        }
        try:
            if page.slow:
                loop = asyncio.get_running_loop()
                answer = await loop.run_in_executor(self._beside, page.answer, headers)
            else:
                answer = page.answer(headers)
        except Exception as fault:  # one of ours; the next request may be another
            if repr(fault) != self._fault:
                self._fault = repr(fault)
                _log.exception("event=page_failed page=%s", target)
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR), True
        return answer, method == "GET"


def _plain(status: HTTPStatus, text: str = "", **headers: str) -> Answer:
    body = f"{text or status.phrase}\n".encode()
    return Answer(body, status, {"Content-Type": _PLAIN, **headers})


def probe(trouble: Callable[[], str]) -> Page:
    """A page for a probe: 200 while there is no trouble, else 503 and what the trouble is."""

    def answer(_headers: Mapping[str, str]) -> Answer:
        found = trouble()
        return _plain(HTTPStatus.SERVICE_UNAVAILABLE, found) if found else _plain(HTTPStatus.OK)

    return Page(answer)
