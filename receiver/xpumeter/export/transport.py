# SPDX-License-Identifier: Apache-2.0
"""What a way to a Collector looks like, whichever protocol it speaks, and what may become of a try.

The two ways are in `grpc_transport` and `http_transport`; only the one in use is imported.
"""

import re
from dataclasses import dataclass
from typing import Protocol

from xpumeter.destination import Destination, OtlpGrpc

# Causes that are no status of a protocol.
CONNECTION = "connection"
TIMEOUT = "timeout"
TLS = "tls"
NO_OTLP = "no_otlp"
"""The answer is not OTLP's: something else listens there."""
CLOSING = "closing"
FAULT = "_OTHER"
"""A fault of ours."""

ANSWER_LIMIT_BYTES = 1 << 20
"""Of an answer. A good one has some bytes, and a reason should fit in here."""

_REASON_LIMIT = 300
# As grpc-go and C core, Java, tonic and Go's net/http say it.
_TOO_LARGE = re.compile(r"larger than max|exceeds maximum|too large", re.IGNORECASE)
# C core, of an answer that is larger than we take.
_ABOUT_ANSWER = "CLIENT: "


@dataclass(frozen=True, slots=True)
class Taken:
    """The Collector has the request, but for the points that it rejected."""

    rejected_points: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The Collector does not have the request, or did not say so.

    Attributes:
        cause: One word of a small set: a status, or one of the causes above.
        reason: What there is to read, for the log.
        again: It may be tried again.
        wait_s: The Collector asked not to be asked before.
        too_large: Two halves of it may be taken.
    """

    cause: str
    reason: str
    again: bool = False
    wait_s: float | None = None
    too_large: bool = False


class Try(Protocol):
    """One request on its way."""

    def result(self) -> Taken | Refused:
        """Wait for its end, at most as long as the destination's timeout says."""
        ...

    def cancel(self) -> None:
        """End it now, from another thread; also before `result` was called."""
        ...


class Transport(Protocol):
    """A way to a Collector. One try at a time."""

    @property
    def endpoint(self) -> str:
        """Where it leads, for the log."""
        ...

    def begin(self, request: bytes) -> Try:
        """Send an ExportMetricsServiceRequest; never waits."""
        ...

    def close(self) -> None:
        """Let go of the connection; ends a try that is there."""
        ...


def open_transport(destination: Destination) -> Transport:
    """The way that the configuration names. ConfigError if its TLS files are not what they say."""
    if isinstance(destination, OtlpGrpc):
        from xpumeter.export.grpc_transport import GrpcTransport

        return GrpcTransport(destination)
    from xpumeter.export.http_transport import HttpTransport

    return HttpTransport(destination)


def says_too_large(text: str) -> bool:
    """Whether a receiver's words mean that the request was too long for it."""
    return bool(_TOO_LARGE.search(text)) and not is_about_answer(text)


def is_about_answer(text: str) -> bool:
    """Whether our own side says it, of what the receiver answered."""
    return _ABOUT_ANSWER in text


def shortened(text: str) -> str:
    """What a Collector said, short enough for a log."""
    return text if len(text) <= _REASON_LIMIT else f"{text[:_REASON_LIMIT]}..."
