# SPDX-License-Identifier: Apache-2.0
"""A fake Collector of either protocol behind a front, which a test breaks and heals."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import trustme

from fake_collector import FakeCollector, serving
from fake_http_collector import FakeHttpCollector, serving_http
from front import Front, fronting

GRPC, HTTP = "grpc", "http"


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@cache
def other_authority() -> trustme.CA:
    return trustme.CA()


def ca_file(folder: Path) -> str:
    """Certificate of the authority, as the configuration takes it."""
    file = folder / "ca.pem"
    authority().cert_pem.write_to_path(str(file))
    return str(file)


def tls(certificate: trustme.LeafCert, *, client_ca: trustme.CA | None = None) -> ssl.SSLContext:
    """A server with this certificate; `client_ca`: it wants to see one of that authority."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.set_alpn_protocols(["h2", "http/1.1"])
    certificate.configure_cert(made)
    if client_ca:
        client_ca.configure_trust(made)
        made.verify_mode = ssl.CERT_REQUIRED
    return made


@cache
def good_tls() -> ssl.SSLContext:
    return tls(authority().issue_cert("127.0.0.1"))


@dataclass(slots=True)
class Scene:
    """A Collector behind a front. `heal` makes it a good one, in the same place.

    Attributes:
        secure: The agent is told to speak TLS.
    """

    front: Front
    grpc: FakeCollector | None = None
    http: FakeHttpCollector | None = None
    secure: bool = False
    _listens: bool = False

    @property
    def collector(self) -> FakeCollector | FakeHttpCollector:
        collector = self.grpc or self.http
        assert collector is not None
        return collector

    @property
    def endpoint(self) -> str:
        return f"{'https' if self.secure else 'http'}://127.0.0.1:{self.front.port}"

    def begin(self, set_up: "Break | None") -> None:
        if set_up is not None:
            set_up(self)
            self._listen()

    def _listen(self) -> None:
        if not self._listens:
            self.front.listen()
            self._listens = True

    def heal(self) -> None:
        self.front.mode = None
        self.front.tls = good_tls() if self.secure else None
        if self.grpc:
            self.grpc.answer = FakeCollector().answer
        if self.http:
            self.http.answer = FakeHttpCollector().answer
        self._listen()


@contextmanager
def scene(protocol: str) -> Iterator[Scene]:
    """A good Collector, which does not listen yet."""
    if protocol == GRPC:
        with serving() as by_grpc, fronting(by_grpc.port) as front:
            yield Scene(front, grpc=by_grpc)
    else:
        with serving_http() as by_http, fronting(by_http.port) as front:
            yield Scene(front, http=by_http)


Break = Callable[[Scene], None]
