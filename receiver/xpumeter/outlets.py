# SPDX-License-Identifier: Apache-2.0
"""Every way out of the agent: batches to a Collector, a page to scrape, metrics about itself."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from xpumeter.config import Config, MetricsLevel
from xpumeter.export.messages import LINGER_S, Messages
from xpumeter.export.own_exporter import own_exporter
from xpumeter.export.pages import Page
from xpumeter.export.sender import Sender
from xpumeter.export.telemetry import Telemetry
from xpumeter.export.transport import open_transport
from xpumeter.model.exports import ExportStats
from xpumeter.model.owners import Owner
from xpumeter.model.series import Snapshot
from xpumeter.model.stats import AgentStats, Request

_CLOSE_S = 5.0
"""For the last batch."""


class Outlets:
    """Those that the configuration names. `stats` is asked from other threads.

    Attributes:
        metrics: The page to scrape; None where nobody scrapes.
    """

    def __init__(
        self,
        config: Config,
        stats: Callable[[], AgentStats | None],
        *,
        version: str,
        host: Mapping[str, str],
        attached_unix_ns: int,
    ) -> None:
        to, interval_s = config.exporter, config.receiver.collection_interval_s
        self._sender: Sender | None = None
        if to:
            self._sender = Sender(open_transport(to), to.retry_on_failure)
            self._messages = Messages(
                version=version, host=host, limit_bytes=int(to.max_request_size_mib * 2**20)
            )
        self._telemetry: Telemetry | None = None
        if config.service.telemetry.metrics.level is not MetricsLevel.NONE:
            self._telemetry = Telemetry(
                stats,
                own_exporter(to) if to else None,
                version=version,
                host=host,
                interval_s=interval_s,
                attached_unix_ns=attached_unix_ns,
            )
        self.metrics: Page | None = None
        if config.exporters.prometheus:
            from xpumeter.export.prometheus import Scrape  # brings prometheus_client

            self._scrape = Scrape(
                version=version,
                host=host,
                # One period more than for a Collector: a scrape in each still sees the last value.
                linger_s=LINGER_S + interval_s,
                own=self._telemetry.now if self._telemetry else None,
            )
            self.metrics = Page(self._scrape.answer, slow=True)

    def send(self, snapshot: Snapshot) -> None:
        """Hand a snapshot to each; never waits."""
        if self._sender:
            self._sender.send(self._messages.update(snapshot, delivered=self._sender.delivered))
        if self.metrics:
            self._scrape.update(snapshot)

    @property
    def told(self) -> frozenset[Owner]:
        """Owners that have ended, and of whom nothing is left to say, whichever way."""
        each = [self._messages.told] if self._sender else []
        each += [self._scrape.told] if self.metrics else []
        return frozenset.intersection(*each)

    @property
    def exports(self) -> ExportStats | None:
        """What became of the batches; None without a Collector."""
        return self._sender.stats if self._sender else None

    def collected(self, duration_s: float) -> None:
        """Record one collection."""
        if self._telemetry:
            self._telemetry.collected(duration_s)

    def requested(self, request: Request) -> None:
        """Record one request to the container runtime."""
        if self._telemetry:
            self._telemetry.requested(request)

    def close(self) -> None:
        """Let the last values go out, within a deadline."""
        # Both at once: a Collector that is away takes the whole deadline of each.
        with ThreadPoolExecutor(1) as beside:
            if self._telemetry:
                beside.submit(self._telemetry.close, deadline_s=_CLOSE_S)
            if self._sender:
                self._sender.close(deadline_s=_CLOSE_S)
