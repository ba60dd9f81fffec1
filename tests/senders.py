# SPDX-License-Identifier: Apache-2.0
"""Senders for tests, and batches for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from otlp_samples import new, series, snapshot
from xpumeter.destination import Destination, OtlpGrpc, Retry
from xpumeter.export.messages import Batch
from xpumeter.export.sender import Sender
from xpumeter.export.transport import open_transport
from xpumeter.model.owners import Owner

SOON = Retry(initial_interval_s=0.02)
LATE = Retry(initial_interval_s=3600)


def grpc_sender(endpoint: str, *, retry: Retry = LATE, **options: Any) -> Sender:
    return sender(OtlpGrpc(endpoint=endpoint, **options), retry)


def sender(destination: Destination, retry: Retry = LATE) -> Sender:
    return Sender(open_transport(destination), retry)


@contextmanager
def sending(
    endpoint: str, *, timeout_s: float = 5.0, retry: Retry = LATE, **options: Any
) -> Iterator[Sender]:
    """A sender over gRPC."""
    one = grpc_sender(endpoint, retry=retry, timeout_s=timeout_s, **options)
    try:
        yield one
    finally:
        one.close(deadline_s=0.1)


def batch(seq: int = 1, *, owners: int = 1, calls: int = 7) -> Batch:
    shown = snapshot(*(series(Owner(cgroup=f"/{n}"), calls=calls) for n in range(owners)))
    made = new().update(shown, delivered=0)
    return Batch(seq, made.parts, made.points)
