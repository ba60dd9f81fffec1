# SPDX-License-Identifier: Apache-2.0
"""Sends batches to a Collector over OTLP/gRPC, from a thread of its own.

Importing this imports gRPC: 20 MiB and 0.1 s of CPU. `attach` does not.
"""

import logging
import random
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import grpc
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from xpumeter.errors import ConfigError, ExportError
from xpumeter.export.messages import Batch

_log = logging.getLogger(__name__)

_METHOD = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
_DEFAULT_PORT = 4317

# OTLP's table of what may be tried again, less RESOURCE_EXHAUSTED: receivers say it of a message
# that is too large, which stays too large. Who says it for another reason gets the next batch.
_RETRYABLE = {
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
}
_TOO_LARGE_CODES = {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE}
# As grpc-go and C core, Java, and tonic say it.
_TOO_LARGE = re.compile(r"larger than max|exceeds maximum|too large", re.IGNORECASE)

_PAUSE_S = 1.0
_PAUSE_LIMIT_S = 30.0

_OK = "OK"


NO_COMPRESSION = grpc.Compression.NoCompression


def credentials() -> grpc.ChannelCredentials:
    """TLS with the roots that gRPC trusts."""
    return grpc.ssl_channel_credentials()


@dataclass(frozen=True, slots=True)
class Target:
    """Where gRPC connects to: its name for the address, and whether it speaks TLS."""

    address: str
    secure: bool

    @classmethod
    def parse(cls, endpoint: str) -> "Target":
        """Read `http://HOST[:PORT]`, `https://HOST[:PORT]` or `unix:///PATH`; or ConfigError."""
        try:
            url = urlsplit(endpoint)
            port = url.port or _DEFAULT_PORT
        except ValueError as error:
            raise _bad(endpoint) from error
        if url.scheme == "unix" and not url.netloc and url.path.startswith("/"):
            return cls(f"unix:{url.path}", secure=False)
        if url.scheme in {"http", "https"} and url.hostname and url.path in {"", "/"}:
            host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
            return cls(f"{host}:{port}", secure=url.scheme == "https")
        raise _bad(endpoint)


def _bad(endpoint: str) -> ConfigError:
    return ConfigError(
        f"exporters.otlp_grpc.endpoint: {endpoint!r} is no address of a Collector",
        hint="write http://HOST:PORT, https://HOST:PORT or unix:///PATH",
    )


def _header(name: str, value: str) -> tuple[str, str]:
    # gRPC would refuse each call with it, from inside the thread.
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name) or not re.fullmatch(r"[ -~]*", value):
        raise ConfigError(
            f"exporters.otlp_grpc.headers: {name!r} cannot be sent",
            hint="letters, digits, `-`, `_` and `.` in the name, printable ASCII in the value",
        )
    return name.lower(), value


class Sender:
    """Delivers batches, one at a time; a newer one replaces what waits.

    Whatever the Collector does, `send` returns at once and two batches at most are held. A batch
    is tried again, with growing pauses, until it arrives, is refused for good, or a newer one is
    there.

    Attributes:
        delivered: `seq` of the newest batch that arrived; 0 if none did.
        exports: Batches that were tried, with whatever end.
        failures: Of these, those that did not arrive.
        rejected: Points that the Collector refused in batches that did.
    """

    def __init__(
        self, endpoint: str, *, headers: Mapping[str, str] | None = None, timeout_s: float = 10.0
    ) -> None:
        target = Target.parse(endpoint)
        options = [("grpc.max_reconnect_backoff_ms", 10_000)]  # gRPC's own is two minutes
        self._channel = (
            grpc.secure_channel(target.address, credentials(), options)
            if target.secure
            else grpc.insecure_channel(target.address, options)
        )
        self._export = self._channel.unary_unary(_METHOD, None, None)
        self._endpoint = endpoint
        self._metadata = tuple(_header(name, value) for name, value in (headers or {}).items())
        self._timeout_s = timeout_s
        self.delivered = 0
        self.exports = 0
        self.failures = 0
        self.rejected = 0
        self._state = ""
        self._wake = threading.Condition()
        self._waiting: Batch | None = None
        self._in_flight: grpc.Future[bytes] | None = None
        self._closes_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="xpumeter-otlp", daemon=True)
        self._thread.start()

    def send(self, batch: Batch) -> None:
        """Hand over a batch; never waits."""
        with self._wake:
            self._waiting = batch
            self._wake.notify()

    def close(self, *, deadline_s: float) -> None:
        """Send what waits and stop, within the deadline."""
        with self._wake:
            self._closes_at = time.monotonic() + deadline_s
            # A try that hangs would eat the time of the newest batch, which has all that it has.
            if self._waiting is not None and (hanging := self._in_flight) is not None:
                hanging.cancel()
            self._wake.notify()
        self._thread.join(deadline_s)
        self._channel.close()  # ends a try that is still there
        self._thread.join(1)

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            if batch.parts:
                self.exports += 1
            rejected = self.rejected
            try:
                for part in batch.parts:
                    self._deliver(part)
            except ExportError as error:
                self.failures += 1
                _log.debug("event=batch_failed batch=%d reason=%s", batch.seq, error)
            except Exception as error:  # a fault of ours must not end the exports for good
                self.failures += 1
                self._report("FAULT", repr(error))
            else:
                self.delivered = batch.seq
                if batch.parts and self.rejected == rejected:
                    self._report(_OK, "")

    def _next(self) -> Batch | None:
        """The batch that waits; None once there is none and we close."""
        with self._wake:
            self._wake.wait_for(lambda: self._waiting is not None or self._closes_at is not None)
            batch, self._waiting = self._waiting, None
            return batch

    def _deliver(self, part: bytes) -> None:
        """Bring a request across, with as many tries as it takes; ExportError if it is given up."""
        pause_s = _PAUSE_S
        while (error := self._try(part)) is not None:
            text = error.details() or ""
            if error.code() in _TOO_LARGE_CODES and _TOO_LARGE.search(text):
                halves = _halves(part)
                if halves is None:
                    self._report(error.code().name, text)
                    raise ExportError(f"one Resource of {len(part)} bytes: {text}")
                for half in halves:
                    self._deliver(half)
                return
            self._report(error.code().name, text)
            again = error.code() in _RETRYABLE
            if not again or not self._pause(pause_s * random.uniform(0.5, 1.5)):  # noqa: S311
                raise ExportError(text)
            pause_s = min(2 * pause_s, _PAUSE_LIMIT_S)

    def _try(self, part: bytes) -> grpc.RpcError | None:
        """Send a request once: the error, or None if it was taken."""
        with self._wake:
            superseded = self._closes_at is not None and self._waiting is not None
            if superseded or self._left_s() <= 0:
                raise ExportError("closing")
            self._in_flight = self._export.future(
                part, timeout=self._timeout_s, metadata=self._metadata
            )
        try:
            answer = self._in_flight.result()
        except grpc.RpcError as error:
            return error
        except grpc.FutureCancelledError as error:
            raise ExportError("closing") from error
        finally:
            self._in_flight = None
        self._read(answer)
        return None

    def _read(self, answer: bytes) -> None:
        # A good answer has a partial success too: an empty one.
        try:
            partial = ExportMetricsServiceResponse.FromString(answer).partial_success
        except DecodeError:
            return
        if partial.rejected_data_points > 0:
            self.rejected += partial.rejected_data_points
            self._report("PARTIAL_SUCCESS", partial.error_message)

    def _pause(self, seconds: float) -> bool:
        """Wait before the next try. False if there is none: a newer batch waits, or time is up."""
        with self._wake:
            closing = self._closes_at
            self._wake.wait_for(
                lambda: self._waiting is not None or self._closes_at != closing,
                min(seconds, self._left_s()),
            )
            return self._waiting is None and self._left_s() > 0

    def _left_s(self) -> float:
        if self._closes_at is None:
            return threading.TIMEOUT_MAX
        return self._closes_at - time.monotonic()

    def _report(self, state: str, reason: str) -> None:
        """Log a change of state, and nothing else."""
        if state == self._state:
            return
        self._state = state
        if state == _OK:
            _log.info("event=collector endpoint=%s state=%s", self._endpoint, state)
        else:
            _log.warning(
                "event=collector endpoint=%s state=%s reason=%r", self._endpoint, state, reason
            )


def _halves(part: bytes) -> tuple[bytes, bytes] | None:
    """The same Resources in two requests; None if there is but one."""
    resources = ExportMetricsServiceRequest.FromString(part).resource_metrics
    middle = len(resources) // 2
    if not middle:
        return None
    return (
        ExportMetricsServiceRequest(resource_metrics=resources[:middle]).SerializeToString(),
        ExportMetricsServiceRequest(resource_metrics=resources[middle:]).SerializeToString(),
    )
