# SPDX-License-Identifier: Apache-2.0
"""The exporting half of an agent, in front of a real Collector; and samples without their order."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fake_collector import until
from lab.collector import Collector, Sample
from otlp_samples import SECOND, new
from xpumeter.destination import OtlpGrpc
from xpumeter.export.messages import Messages
from xpumeter.export.sender import Sender
from xpumeter.export.transport import open_transport
from xpumeter.model.calls import Reason
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.series import Point, Series, Snapshot

NOW = 1_700_000_000 * SECOND


class Agent:
    """The exporting half of an agent: what it is told to show is delivered when `push` returns.

    `at` is its clock: the Unix time of its last snapshot, in ns.
    """

    def __init__(self, endpoint: str, messages: Messages | None = None) -> None:
        self.messages = messages or new()
        self.sender = Sender(open_transport(OtlpGrpc(endpoint)))
        self.at = NOW

    def push(
        self,
        *all_series: Series,
        devices: tuple[KnownDevice, ...] = (),
        unattributed: dict[tuple[DeviceId | None, Reason], Point] | None = None,
        wait: bool = True,
    ) -> None:
        """Send a snapshot, and wait until it was taken."""
        self.at += 10 * SECOND
        shown = Snapshot(self.at, self.at, all_series, devices, unattributed or {})
        batch = self.messages.update(shown, delivered=self.sender.delivered)
        self.sender.send(batch)
        if wait:
            until(lambda: self.sender.delivered == batch.seq, seconds=30)


@contextmanager
def exporting(collector: Collector, messages: Messages | None = None) -> Iterator[Agent]:
    agent = Agent(collector.otlp_endpoint, messages)
    try:
        yield agent
    finally:
        agent.sender.close(deadline_s=0.1)


def named(samples: Sequence[Sample], name: str) -> list[Sample]:
    return [sample for sample in samples if sample.name == name]


def label_sets(samples: Sequence[Sample]) -> set[tuple[str, frozenset[tuple[str, str]], float]]:
    """Samples without their order; it is an error if two have the same name and labels."""
    keys = [(sample.name, frozenset(sample.labels.items())) for sample in samples]
    assert len(set(keys)) == len(keys)
    return {(*key, sample.value) for key, sample in zip(keys, samples, strict=True)}
