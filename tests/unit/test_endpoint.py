# SPDX-License-Identifier: Apache-2.0
"""Where an endpoint leads, as the Collector and the specification of OTLP read it."""

import pytest

from xpumeter.destination import GrpcTls, OtlpGrpc, OtlpHttp
from xpumeter.export.endpoint import GrpcTarget, HttpTarget, grpc_target, http_target


@pytest.mark.parametrize(
    ("endpoint", "target"),
    [
        ("http://localhost:4317", GrpcTarget("localhost:4317", secure=False)),
        ("https://gateway.example", GrpcTarget("gateway.example:4317", secure=True)),
        ("http://[::1]:9/", GrpcTarget("[::1]:9", secure=False)),
        ("gateway.example:443", GrpcTarget("gateway.example:443", secure=True)),
        ("unix:///run/otlp.sock", GrpcTarget("unix:/run/otlp.sock", secure=False)),
    ],
)
def test_endpoints_of_grpc(endpoint: str, target: GrpcTarget) -> None:
    """The scheme says whether TLS is spoken; the port is OTLP's unless given."""
    assert grpc_target(OtlpGrpc(endpoint)) == target


@pytest.mark.parametrize(
    ("endpoint", "secure"),
    [("a:1", False), ("http://a:1", False), ("https://a:1", True)],
)
def test_insecure_is_for_an_endpoint_without_a_scheme(endpoint: str, secure: bool) -> None:
    """As in the Collector: `https` stays secure."""
    target = grpc_target(OtlpGrpc(endpoint, GrpcTls(insecure=True)))

    assert target == GrpcTarget("a:1", secure=secure)


@pytest.mark.parametrize(
    ("endpoint", "target"),
    [
        ("http://localhost:4318", HttpTarget("http://localhost:4318/v1/metrics")),
        ("https://a/otlp/", HttpTarget("https://a/otlp/v1/metrics")),
        ("http://[::1]:9", HttpTarget("http://[::1]:9/v1/metrics")),
        (
            "unix:///run/otlp.sock",
            HttpTarget("http://localhost/v1/metrics", unix_path="/run/otlp.sock"),
        ),
    ],
)
def test_endpoints_of_http(endpoint: str, target: HttpTarget) -> None:
    """The path of metrics is appended to what was given for all signals."""
    assert http_target(OtlpHttp(endpoint)) == target


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("https://a/api/otlp/v2", "https://a/api/otlp/v2"),
        ("http://a:4318", "http://a:4318/"),
        ("http://a/?tenant=1", "http://a/?tenant=1"),
    ],
)
def test_the_endpoint_of_metrics_is_taken_as_it_is(url: str, asked: str) -> None:
    """Nothing is appended but the root that a URL without a path means."""
    assert http_target(OtlpHttp("http://other:1", url)) == HttpTarget(asked)
