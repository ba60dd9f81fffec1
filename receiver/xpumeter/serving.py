# SPDX-License-Identifier: Apache-2.0
"""Which pages are served where: those for probes, and the one for a scrape."""

import socket
from collections.abc import Callable
from contextlib import ExitStack

from xpumeter.config import Config
from xpumeter.export.pages import Page, Pages, listen, probe

HEALTH, READY, METRICS = "/healthz", "/readyz", "/metrics"

Address = tuple[str, int]


class Serving:
    """Listens on each address of the configuration from the first moment, answers from `start` on.

    Raises:
        HostError: One of the addresses cannot be had.
    """

    def __init__(self, config: Config) -> None:
        self._where: dict[str, Address] = {}
        if health := config.extensions.health_check:
            self._where |= {HEALTH: health.endpoint, READY: health.endpoint}
        if prometheus := config.exporters.prometheus:
            self._where[METRICS] = prometheus.endpoint
        self._running: list[Pages] = []
        keys = {
            METRICS: "exporters.prometheus.endpoint",
            HEALTH: "extensions.health_check.endpoint",
        }
        self._listeners: dict[Address, socket.socket] = {}
        with ExitStack() as undo:
            for path, address in self._where.items():
                if address not in self._listeners:
                    self._listeners[address] = listen(address, keys[path])
                    undo.callback(self._listeners[address].close)
            undo.pop_all()

    def start(
        self, *, alive: Callable[[], str], ready: Callable[[], str], metrics: Page | None
    ) -> None:
        """Answer. `alive` and `ready` say what is wrong, or nothing."""
        pages = {HEALTH: probe(alive), READY: probe(ready)}
        if metrics is not None:
            pages[METRICS] = metrics
        for address, listener in self._listeners.items():
            here = {path: pages[path] for path, at in self._where.items() if at == address}
            self._running.append(Pages(listener, here))

    def close(self) -> None:
        """Stop listening."""
        for pages in self._running:
            pages.close()
