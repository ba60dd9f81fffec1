# SPDX-License-Identifier: Apache-2.0
"""A socket before a fake Collector: it lets all through, or does what a socket may do."""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Mode = Callable[[socket.socket], None]
"""What happens to a connection; it is closed afterwards."""


class Front:
    """Listens on a port of the loopback. `mode` and `tls` hold for connections that come later.

    Without a mode bytes go to and from `backend_port`. `listen` may be called late: until then the
    port refuses connections.
    """

    def __init__(self, backend_port: int) -> None:
        self._backend_port = backend_port
        self.mode: Mode | None = None
        self.tls: ssl.SSLContext | None = None
        self.connections = 0
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def listen(self) -> None:
        """Take connections from now on."""
        self._listener.listen()
        self._start(self._accept)

    def close(self) -> None:
        """End all, and wait for that."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.add(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        mode, tls = self.mode, self.tls
        try:
            if tls is not None:
                self._open.discard(connection)
                connection = tls.wrap_socket(connection, server_side=True)
                self._open.add(connection)
            (mode or self._forward)(connection)
        except OSError:
            pass
        finally:
            self._open.discard(connection)
            connection.close()

    def _forward(self, connection: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._backend_port)) as backend:
            self._open.add(backend)
            self._start(_pump, backend, connection)
            _pump(connection, backend)
            self._open.discard(backend)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
    except OSError:
        pass
    finally:
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def fronting(backend_port: int) -> Iterator[Front]:
    front = Front(backend_port)
    try:
        yield front
    finally:
        front.close()


def silent(connection: socket.socket) -> None:
    """Takes all, and says nothing."""
    while connection.recv(1 << 16):
        pass


def hang_up(connection: socket.socket) -> None:
    """Closes as soon as somebody comes."""


def reset(connection: socket.socket) -> None:
    """Resets the connection after the head of the request."""
    connection.recv(1 << 10)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def half_close(connection: socket.socket) -> None:
    """Says that it will say nothing, and goes on listening."""
    connection.shutdown(socket.SHUT_WR)
    silent(connection)


def says(data: bytes, *, each_s: float = 0.0) -> Mode:
    """Says something, whatever it is asked; byte by byte if `each_s` is given; then is silent."""

    def mode(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        if not each_s:
            connection.sendall(data)
            silent(connection)
        for place in range(len(data)):
            connection.sendall(data[place : place + 1])
            threading.Event().wait(each_s)

    return mode
