# SPDX-License-Identifier: Apache-2.0
"""Where the Collector is, as a person writes it."""

import pytest

from xpumeter.errors import ConfigError
from xpumeter.export.otlp import Sender, Target


@pytest.mark.parametrize(
    ("endpoint", "target"),
    [
        ("http://localhost:4317", Target("localhost:4317", secure=False)),
        ("https://gateway.example", Target("gateway.example:4317", secure=True)),
        ("http://[::1]:9/", Target("[::1]:9", secure=False)),
        ("unix:///run/otlp.sock", Target("unix:/run/otlp.sock", secure=False)),
    ],
)
def test_endpoints(endpoint: str, target: Target) -> None:
    """The scheme says whether TLS is spoken; the port is OTLP's unless given."""
    assert Target.parse(endpoint) == target


@pytest.mark.parametrize(
    "endpoint", ["", "localhost:4317", "http://", "http://h:x", "http://h:1/v1/metrics", "ftp://h"]
)
def test_a_bad_endpoint_is_one_clear_error(endpoint: str) -> None:
    """It names the key and says what to write."""
    with pytest.raises(ConfigError, match=r"exporters\.otlp_grpc\.endpoint") as caught:
        Target.parse(endpoint)
    assert "http://HOST:PORT" in caught.value.hint


def test_a_header_that_cannot_be_sent_is_one_clear_error() -> None:
    """It is said at the start, not from inside the thread."""
    with pytest.raises(ConfigError, match="headers: 'a b' cannot be sent"):
        Sender("http://127.0.0.1:1", headers={"a b": "c"})
