# SPDX-License-Identifier: Apache-2.0
"""Where an endpoint of the configuration leads."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from xpumeter.destination import OtlpGrpc, OtlpHttp
from xpumeter.otlp_forms import masked

_GRPC_PORT = 4317
_METRICS_PATH = "/v1/metrics"
_UNIX = "unix://"


def shown(destination: OtlpGrpc | OtlpHttp) -> str:
    """Where the data goes, as it may be printed."""
    whole = destination.metrics_endpoint if isinstance(destination, OtlpHttp) else ""
    return masked(whole or destination.endpoint)


@dataclass(frozen=True, slots=True)
class GrpcTarget:
    """Where gRPC connects to: its name for the address, and whether it speaks TLS."""

    address: str
    secure: bool


def grpc_target(destination: OtlpGrpc) -> GrpcTarget:
    """What the endpoint means. It was checked when the configuration was read."""
    endpoint = destination.endpoint
    if endpoint.startswith(_UNIX):
        return GrpcTarget(f"unix:{endpoint.removeprefix(_UNIX)}", secure=False)
    if "://" not in endpoint:
        return GrpcTarget(endpoint, secure=not destination.tls.insecure)
    url = urlsplit(endpoint)
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
    return GrpcTarget(f"{host}:{url.port or _GRPC_PORT}", secure=url.scheme == "https")


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """What HTTP asks for, and the socket to ask at; empty: the URL says it."""

    url: str
    unix_path: str = ""


def http_target(destination: OtlpHttp) -> HttpTarget:
    """The same for HTTP. The path of metrics comes after a base, and not after a whole URL."""
    if whole := destination.metrics_endpoint:
        # Without a path a URL means the root: the specification's words.
        return HttpTarget(whole if urlsplit(whole).path else f"{whole}/")
    base = destination.endpoint
    if base.startswith(_UNIX):
        return HttpTarget(f"http://localhost{_METRICS_PATH}", base.removeprefix(_UNIX))
    return HttpTarget(base.rstrip("/") + _METRICS_PATH)
