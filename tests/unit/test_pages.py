# SPDX-License-Identifier: Apache-2.0
"""A few pages over HTTP: right answers to right requests, and nothing to be had by wrong ones."""

import contextlib
import logging
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_collector import until
from xpumeter.errors import HostError
from xpumeter.export import pages as module
from xpumeter.export.pages import Answer, Page, Pages, listen, probe

BIG = b"x" * (8 << 20)


class Site:
    """A running server, and what its pages were asked."""

    def __init__(self) -> None:
        self.trouble = ""
        self.asked: list[Mapping[str, str]] = []
        self.hold: Callable[[], object] = lambda: None
        self.pages = Pages(
            listen(("127.0.0.1", 0), "key"),
            {
                "/healthz": probe(lambda: self.trouble),
                "/metrics": Page(self._slow, slow=True),
                "/big": Page(lambda _: Answer(BIG)),
                "/broken": Page(self._broken),
            },
        )

    def _slow(self, headers: Mapping[str, str]) -> Answer:
        self.hold()
        self.asked.append(headers)
        return Answer(b"a 1\n", headers={"Content-Type": "x"})

    def _broken(self, _headers: Mapping[str, str]) -> Answer:
        raise ValueError("no")

    def connect(self) -> socket.socket:
        return socket.create_connection(self.pages.address, timeout=10)

    def say(self, request: bytes) -> bytes:
        """All that comes back for these bytes."""
        with self.connect() as client:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(1 << 16), b""))

    def get(self, path: str) -> tuple[int, str]:
        """Status and body, by Python's own client."""
        host, port = self.pages.address
        try:
            with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with closing(error):
                return error.code, error.read().decode()


@pytest.fixture(scope="module")
def shared() -> Iterator[Site]:
    site = Site()
    yield site
    site.pages.close()


@pytest.fixture
def site(shared: Site) -> Site:
    shared.trouble, shared.hold = "", lambda: None
    shared.asked.clear()
    return shared


def test_a_probe_is_told_what_the_trouble_is(site: Site) -> None:
    """200 while there is none, 503 with the reason while there is."""
    assert site.get("/healthz") == (200, "OK\n")
    site.trouble = "nothing was collected for 90 s"
    assert site.get("/healthz?verbose") == (503, "nothing was collected for 90 s\n")


def test_a_page_gets_the_headers_and_gives_its_own(site: Site) -> None:
    """Names in lower case, values as they are; the connection ends with the answer."""
    answer = site.say(b"GET /metrics HTTP/1.1\r\nHost: h\r\nAccept: text/plain; a=b:c\r\n\r\n")

    assert site.asked == [{"host": "h", "accept": "text/plain; a=b:c"}]
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"Content-Type: x",
        b"Content-Length: 4",
        b"Connection: close",
    ]
    assert body == b"a 1\n"


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("HEAD /metrics HTTP/1.1", 200),
        ("GET http://h/metrics HTTP/1.1", 200),
        ("GET /metrics HTTP/1.0", 200),
        ("GET / HTTP/1.1", 404),
        ("GET //[ HTTP/1.1", 404),
        ("POST /metrics HTTP/1.1", 405),
        ("GET /broken HTTP/1.1", 500),
        ("GET /metrics HTTP/2.0", 400),
        ("GET", 400),
        ("", 400),
        ("\x16\x03\x01\x02", 400),
        (f"GET /{'a' * 8192} HTTP/1.1", 431),
    ],
)
def test_each_request_has_one_answer(site: Site, request_line: str, status: int) -> None:
    """Whatever it is; only HEAD has no body."""
    answer = site.say(request_line.encode("latin-1") + b"\r\n\r\n")

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert bool(body) == (not request_line.startswith("HEAD"))


def test_a_page_that_fails_is_one_line(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """However often it is asked; all other pages go on."""
    caplog.set_level(logging.INFO)
    site.pages._fault = ""
    for _ in range(3):
        assert site.get("/broken")[0] == 500

    assert [record.message for record in caplog.records] == ["event=page_failed page=/broken"]
    assert site.get("/healthz")[0] == 200


def test_a_probe_does_not_wait_for_a_scrape(site: Site) -> None:
    """The page that takes long is made beside the others."""
    go = threading.Event()
    site.hold = lambda: go.wait(10)
    scraping = threading.Thread(target=site.get, args=("/metrics",))
    scraping.start()

    assert site.get("/healthz")[0] == 200
    assert site.asked == []
    go.set()
    scraping.join()
    assert len(site.asked) == 1


def test_slow_clients_do_not_keep_a_probe_out(site: Site) -> None:
    """Three times as many as there is room for, each with half a request: the oldest go."""
    slow = [site.connect() for _ in range(3 * module._CONNECTIONS)]
    for client in slow:
        client.sendall(b"GET /healthz HTTP/1.1\r\nX: ")

    assert site.get("/healthz")[0] == 200
    until(lambda: len(site.pages._connections) <= module._CONNECTIONS)
    for client in slow:
        client.close()


def test_a_slow_request_is_over_at_its_deadline(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that keep coming do not prolong it."""
    monkeypatch.setattr(module, "_DEADLINE_S", 0.2)
    with site.connect() as client:
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 5:
                client.sendall(b"a")
                time.sleep(0.01)
        assert time.monotonic() - began < 2


def test_who_does_not_read_takes_no_memory(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is there once, however many wait for their 8 MiB; at the deadline they are gone."""
    monkeypatch.setattr(module, "_DEADLINE_S", 0.5)
    before = rss_mib()
    lazy = [site.connect() for _ in range(20)]
    for client in lazy:
        client.sendall(b"GET /big HTTP/1.1\r\n\r\n")
    until(lambda: len(site.pages._connections) >= 20)
    time.sleep(0.2)

    assert rss_mib() - before < 40  # 160, were each copied
    until(lambda: not site.pages._connections)
    for client in lazy:
        client.close()


def rss_mib() -> float:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * 4096 / 2**20


def test_a_large_page_arrives_whole(site: Site) -> None:
    """Piece by piece, all of it."""
    status, body = site.get("/big")

    assert (status, len(body)) == (200, len(BIG))


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_no_bytes_break_it(shared: Site, request_bytes: bytes) -> None:
    """Whatever is sent, the next probe is answered."""
    answer = shared.say(request_bytes)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
    assert shared.say(b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 ")


def test_an_address_that_is_taken_is_one_clear_error(site: Site) -> None:
    """It names the setting, the address and a way to see who is there."""
    _, port = site.pages.address

    with pytest.raises(HostError) as caught:
        listen(("127.0.0.1", port), "exporters.prometheus.endpoint")

    assert str(caught.value) == (
        f"exporters.prometheus.endpoint: nobody can listen on 127.0.0.1:{port}: "
        "Address already in use"
    )
    assert "ss -ltnp" in caught.value.hint


def test_a_host_that_is_none_is_the_same_error() -> None:
    """A name without an address, and an address of another host."""
    for host in ("name.invalid", "192.0.2.1"):
        with pytest.raises(HostError, match=rf"nobody can listen on {host}:1: "):
            listen((host, 1), "key")


def test_every_address_of_the_host_is_both_families() -> None:
    """An empty host: IPv4 and, where there is one, IPv6."""
    site = Pages(listen(("", 0), "key"), {"/": probe(lambda: "")})
    port = site.address[1]

    for host in ("127.0.0.1", "::1"):
        with socket.create_connection((host, port), timeout=5) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 200"
    site.close()


def test_closing_does_not_wait_for_clients() -> None:
    """One that says nothing is left without an answer, and the address is free again."""
    site = Site()
    with site.connect():
        until(lambda: bool(site.pages._connections))
        began = time.monotonic()
        site.pages.close()

        assert time.monotonic() - began < 2
    with closing(listen(site.pages.address, "key")):
        pass
