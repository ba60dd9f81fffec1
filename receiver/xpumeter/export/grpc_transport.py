# SPDX-License-Identifier: Apache-2.0
"""OTLP over gRPC. Importing this imports gRPC: 20 MiB and 0.1 s of CPU. `attach` does not."""

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)

from xpumeter.destination import Compression, OtlpGrpc
from xpumeter.errors import ConfigError
from xpumeter.export import tls
from xpumeter.export.endpoint import grpc_target
from xpumeter.export.transport import (
    ANSWER_LIMIT_BYTES,
    CLOSING,
    NO_OTLP,
    TLS,
    Refused,
    Taken,
    Try,
    is_about_answer,
    says_too_large,
    shortened,
)

_METHOD = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"

# OTLP's table of what may be tried again. RESOURCE_EXHAUSTED only with a RetryInfo: receivers say
# it of a message that is too large, which stays too large.
_RETRYABLE = {
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
}
# tonic says OUT_OF_RANGE.
_TOO_LARGE = {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE}
_BIG_BYTES = 1 << 20
"""A larger request that is refused with RESOURCE_EXHAUSTED and no reason that we know is halved."""

COMPRESSION = {
    Compression.NONE: grpc.Compression.NoCompression,
    Compression.GZIP: grpc.Compression.Gzip,
}


def credentials(destination: OtlpGrpc) -> grpc.ChannelCredentials | None:
    """TLS as the destination wants it, None for none. ConfigError for a file that is not usable."""
    if not grpc_target(destination).secure:
        return None
    files = destination.tls
    tls.context(files)  # gRPC would say nothing of a bad file until a call fails
    return grpc.ssl_channel_credentials(
        tls.roots(files),
        tls.read(files.key_file, "key_file") if files.key_file else None,
        tls.read(files.cert_file, "cert_file") if files.cert_file else None,
    )


def options(destination: OtlpGrpc) -> tuple[tuple[str, Any], ...]:
    """What a channel is made with."""
    name = destination.tls.server_name_override
    return (
        ("grpc.primary_user_agent", f"xpumeter/{version('xpumeter')}"),
        # Who sends paces the tries. Beside that gRPC's own pauses, up to two minutes, would only
        # keep the first batch from a Collector that is back.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.max_receive_message_length", ANSWER_LIMIT_BYTES),
        # A new channel is a new connection, not one that another channel has left hanging.
        ("grpc.use_local_subchannel_pool", 1),
        *((("grpc.ssl_target_name_override", name),) if name else ()),
    )


class GrpcTransport:
    """The way to a Collector over gRPC; ConfigError if TLS files are not usable."""

    def __init__(self, destination: OtlpGrpc) -> None:
        self.endpoint = destination.endpoint
        self._destination = destination
        self._stamp = tls.stamp(destination.tls)
        self._channel = self._connect()

    def begin(self, request: bytes) -> Try:
        """Send a request; never waits."""
        if (stamp := tls.stamp(self._destination.tls)) != self._stamp:
            try:
                self.reconnect()
            except ConfigError as half_written:
                return _NoTry(Refused(TLS, str(half_written), again=True))
            self._stamp = stamp
        call = self._channel.unary_unary(_METHOD, None, None).future(
            request, timeout=self._destination.timeout_s, metadata=self._destination.headers
        )
        return _Call(self, call, len(request))

    def reconnect(self) -> None:
        """Let go of the connection, and make a new one for the next try."""
        before, self._channel = self._channel, self._connect()
        before.close()

    def close(self) -> None:
        """Let go of the connection; ends a try that is there."""
        self._channel.close()

    def _connect(self) -> grpc.Channel:
        target = grpc_target(self._destination)
        secret = credentials(self._destination)
        compression = COMPRESSION[self._destination.compression]
        how = options(self._destination)
        if secret is None:
            return grpc.insecure_channel(target.address, how, compression)
        return grpc.secure_channel(target.address, secret, how, compression)


class _NoTry:
    """A try that was over before it began."""

    def __init__(self, refused: Refused) -> None:
        self._refused = refused

    def result(self) -> Refused:
        return self._refused

    def cancel(self) -> None:
        pass


class _Call:
    def __init__(
        self, transport: GrpcTransport, call: "grpc.CallFuture[bytes]", size_bytes: int
    ) -> None:
        self._transport = transport
        self._call = call
        self._size_bytes = size_bytes

    def result(self) -> Taken | Refused:
        try:
            answer = self._call.result()
        except grpc.FutureCancelledError:
            return Refused(CLOSING, "given up")
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                # The other end may be gone without a word: TCP would go on for minutes.
                self._transport.reconnect()
            return _refused(error, self._size_bytes)
        try:
            partial = ExportMetricsServiceResponse.FromString(answer).partial_success
        except DecodeError:
            return Refused(NO_OTLP, "the answer is no ExportMetricsServiceResponse")
        return Taken(partial.rejected_data_points, partial.error_message)

    def cancel(self) -> None:
        self._call.cancel()  # type: ignore[no-untyped-call]


def _refused(error: grpc.RpcError, size_bytes: int) -> Refused:
    code, text = error.code(), error.details() or ""
    wait_s = _retry_delay_s(error.trailing_metadata() or ())
    exhausted = code is grpc.StatusCode.RESOURCE_EXHAUSTED
    too_large = code in _TOO_LARGE and says_too_large(text)
    if exhausted and wait_s is None and size_bytes > _BIG_BYTES:
        too_large = not is_about_answer(text)
    return Refused(
        code.name,
        shortened(text),
        again=code in _RETRYABLE or (exhausted and wait_s is not None),
        wait_s=wait_s,
        too_large=too_large,
    )


def _retry_delay_s(metadata: Iterable[Any]) -> float | None:
    """What a google.rpc.RetryInfo in the trailers asks for; None if there is none."""
    details = dict(metadata).get("grpc-status-details-bin")
    if not isinstance(details, bytes):
        return None
    info = RetryInfo()
    try:
        for detail in Status.FromString(details).details:
            if detail.Unpack(info):
                return float(max(0, info.retry_delay.ToTimedelta().total_seconds()))
    except DecodeError:
        pass
    return None
