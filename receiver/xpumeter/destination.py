# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009 (setting() makes a field, once per class)
"""Where the counts go over OTLP, and how: the settings of the two exporters.

Their keys are those of the Collector's exporters of the same names. A key that is left out is what
OpenTelemetry's variable for it says; of two variables that of the signal, `..._METRICS_...`, first.
"""

from dataclasses import dataclass
from enum import StrEnum

from xpumeter.forms import BOOLEAN, FILE, choice, duration, number
from xpumeter.otlp_forms import (
    GRPC_ENDPOINT,
    HEADERS,
    HOST_NAME,
    HTTP_ENDPOINT,
    HTTP_URL,
    milliseconds,
)
from xpumeter.settings import setting


def variables(name: str) -> tuple[str, str]:
    """The variables of OTLP's exporters: of metrics, and of all signals."""
    return f"OTEL_EXPORTER_OTLP_METRICS_{name}", f"OTEL_EXPORTER_OTLP_{name}"


class Protocol(StrEnum):
    """What OTEL_EXPORTER_OTLP_PROTOCOL may say, where the file names no exporter."""

    GRPC = "grpc"
    HTTP = "http/protobuf"


class Compression(StrEnum):
    """How requests are compressed."""

    NONE = "none"
    GZIP = "gzip"


@dataclass(frozen=True, slots=True)
class Tls:
    """What both exporters have of TLS."""

    ca_file: str = setting(
        FILE,
        "",
        "Certificates (PEM), one of which the Collector's must be signed by. Left out: those that "
        "the system trusts.",
        variables=variables("CERTIFICATE"),
    )
    cert_file: str = setting(
        FILE,
        "",
        "Certificate (PEM) that the agent shows. Needs `key_file`.",
        variables=variables("CLIENT_CERTIFICATE"),
    )
    key_file: str = setting(
        FILE, "", "Its private key (PEM), without a password.", variables=variables("CLIENT_KEY")
    )
    server_name_override: str = setting(
        HOST_NAME,
        "",
        "Name that the Collector's certificate must have, where it is not the endpoint's.",
    )

    @property
    def has_files(self) -> bool:
        """Whether there is a file to be read."""
        return bool(self.ca_file or self.cert_file)


@dataclass(frozen=True, slots=True)
class GrpcTls(Tls):
    """TLS of gRPC."""

    insecure: bool = setting(
        BOOLEAN,
        False,
        "Speak no TLS to an endpoint that is written as `HOST:PORT`. To `http` there is none "
        "anyway, to `https` always.",
        variables=variables("INSECURE"),
    )


@dataclass(frozen=True, slots=True)
class HttpTls(Tls):
    """TLS of HTTP."""

    insecure_skip_verify: bool = setting(
        BOOLEAN, False, "Do not check the Collector's certificate. For trials only."
    )


@dataclass(frozen=True, slots=True)
class Retry:
    """What is tried again, and when. A newer batch always replaces the one that is tried."""

    enabled: bool = setting(BOOLEAN, True, "Whether a batch is tried more than once.")
    initial_interval_s: float = setting(
        duration("10ms", "1h"),
        1.0,
        "Pause after the first try that failed, unless the Collector asks for a longer one.",
        key="initial_interval",
    )
    randomization_factor: float = setting(
        number(0, 1), 0.5, "By which part a pause is longer or shorter at random."
    )
    multiplier: float = setting(number(1, 100), 2.0, "How much longer each next pause is.")
    max_interval_s: float = setting(
        duration("10ms", "1h"), 30.0, "The longest pause.", key="max_interval"
    )
    max_elapsed_time_s: float = setting(
        duration("0s", "24h"),
        0.0,
        "When a batch is given up; `0s`: when the next one is there.",
        key="max_elapsed_time",
    )


# What both exporters have. `setting()` makes a field, so each class has one of its own.


def _headers() -> tuple[tuple[str, str], ...]:
    return setting(
        HEADERS,
        (),
        "Sent with each batch, such as a token. Never printed. A variable has `name=text`, with "
        "commas between.",
        variables=variables("HEADERS"),
        secret=True,
    )


def _compression() -> Compression:
    return setting(
        choice(Compression),
        Compression.NONE,
        "To a Collector on another host gzip saves nine tenths of the bytes, and costs CPU.",
        variables=variables("COMPRESSION"),
    )


def _timeout() -> float:
    return setting(
        duration("100ms", "10m"),
        10.0,
        "How long the Collector has to take a request. A variable has milliseconds.",
        key="timeout",
        variables=variables("TIMEOUT"),
        parse=milliseconds(0.1, 600),
    )


def _request_size() -> float:
    return setting(
        number(0.0625, 1024),
        3.0,
        "The largest request, before compression, in MiB. Receivers of gRPC take 4 unless "
        "`max_recv_msg_size_mib` says otherwise, of HTTP 20.",
    )


@dataclass(frozen=True, slots=True)
class OtlpGrpc:
    """OTLP over gRPC, to a Collector."""

    endpoint: str = setting(
        GRPC_ENDPOINT,
        "http://localhost:4317",
        "Where the Collector is. `https` means TLS, and so does `HOST:PORT` unless "
        "`tls.insecure` is true. Without a port 4317.",
        variables=variables("ENDPOINT"),
    )
    tls: GrpcTls = GrpcTls()
    headers: tuple[tuple[str, str], ...] = _headers()
    compression: Compression = _compression()
    timeout_s: float = _timeout()
    retry_on_failure: Retry = Retry()
    max_request_size_mib: float = _request_size()


@dataclass(frozen=True, slots=True)
class OtlpHttp:
    """OTLP over HTTP, in protobuf, to a Collector."""

    endpoint: str = setting(
        HTTP_ENDPOINT,
        "http://localhost:4318",
        "Where the Collector is; `/v1/metrics` is appended. `https` means TLS.",
        variables=("OTEL_EXPORTER_OTLP_ENDPOINT",),
    )
    metrics_endpoint: str = setting(
        HTTP_URL,
        "",
        "The whole URL that batches are sent to, instead of `endpoint`.",
        variables=("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",),
        unless="endpoint",
    )
    tls: HttpTls = HttpTls()
    headers: tuple[tuple[str, str], ...] = _headers()
    compression: Compression = _compression()
    timeout_s: float = _timeout()
    retry_on_failure: Retry = Retry()
    max_request_size_mib: float = _request_size()


Destination = OtlpGrpc | OtlpHttp
"""One of the two: where the counts and the agent's own metrics go."""
