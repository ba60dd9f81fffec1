# SPDX-License-Identifier: Apache-2.0
"""urllib3's connections, so that another thread can cut them, and with Unix sockets."""

import contextlib
import socket

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection


class Line:
    """The socket of the one connection that a transport has."""

    def __init__(self) -> None:
        self._handle: socket.socket | None = None

    def opened(self, connected: socket.socket) -> socket.socket:
        """Remember it; gives it back. A duplicate is kept: TLS takes the socket itself over."""
        self.close()
        self._handle = connected.dup()
        return connected

    def cut(self) -> None:
        """End it, in both directions, whoever reads from it or writes to it."""
        if (handle := self._handle) is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """The same, and let go of it."""
        self.cut()
        if (handle := self._handle) is not None:
            handle.close()
        self._handle = None


def pool_classes(line: Line, unix_path: str) -> dict[str, type[HTTPConnectionPool]]:
    """Pools by scheme, for a PoolManager; with a path all connections lead to that Unix socket.

    `_new_conn` is where urllib3's own SOCKS connections begin too.
    """

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            if not unix_path:
                return line.opened(super()._new_conn())
            connected = socket.socket(socket.AF_UNIX)
            if isinstance(self.timeout, (int, float)):
                connected.settimeout(self.timeout)
            try:
                connected.connect(unix_path)
            except OSError:
                connected.close()
                raise
            return line.opened(connected)

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return line.opened(super()._new_conn())

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}
