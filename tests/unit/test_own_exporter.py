# SPDX-License-Identifier: Apache-2.0
"""The agent's own metrics go where the counts go, in the same way."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Gauge

from fake_collector import FakeCollector, serving, until
from fake_http_collector import FakeHttpCollector, serving_http, status
from scene import GRPC, HTTP, authority, other_authority, scene, tls
from xpumeter.destination import (
    Compression,
    Destination,
    GrpcTls,
    HttpTls,
    OtlpGrpc,
    OtlpHttp,
)
from xpumeter.export.own_exporter import own_exporter
from xpumeter.export.telemetry import Telemetry
from xpumeter.model.stats import AgentStats

HEADERS = (("x-token", "t"),)


@pytest.fixture
def collector() -> Iterator[FakeHttpCollector]:
    with serving_http() as fake:
        yield fake


def telemetry(destination: Destination, *, interval_s: float = 3600) -> Telemetry:
    exporter = own_exporter(destination)
    return Telemetry(AgentStats, exporter, version="1.2.3", host={}, interval_s=interval_s)


def export(destination: Destination) -> None:
    telemetry(destination).close(deadline_s=5)


def test_over_http_with_what_is_set(collector: FakeHttpCollector) -> None:
    """Headers, compression, path; totals."""
    export(
        OtlpHttp(
            f"http://127.0.0.1:{collector.port}/otlp",
            headers=HEADERS,
            compression=Compression.GZIP,
        )
    )

    (request,) = collector.taken
    assert collector.path == "/otlp/v1/metrics"
    assert collector.headers["x-token"] == "t"
    assert collector.headers["content-encoding"] == "gzip"
    scope = request.resource_metrics[0].scope_metrics[0]
    kinds = (getattr(metric, str(metric.WhichOneof("data"))) for metric in scope.metrics)
    temporalities = {kind.aggregation_temporality for kind in kinds if not isinstance(kind, Gauge)}
    assert temporalities == {AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE}


@pytest.mark.parametrize("protocol", [GRPC, HTTP])
def test_over_a_unix_socket(tmp_path: Path, protocol: str) -> None:
    """The same one."""
    path = tmp_path / "otlp.sock"
    fake: FakeCollector | FakeHttpCollector
    if protocol == GRPC:
        with serving(f"unix:{path}") as fake:
            export(OtlpGrpc(f"unix://{path}"))
    else:
        with serving_http(unix=path) as fake:
            export(OtlpHttp(f"unix://{path}"))
    assert len(fake.taken) == 1


@pytest.mark.parametrize("protocol", [GRPC, HTTP])
def test_over_tls(tmp_path: Path, protocol: str) -> None:
    """With the same authority and the same name."""
    ca = tmp_path / "ca.pem"
    authority().cert_pem.write_to_path(str(ca))
    with scene(protocol) as guarded:
        guarded.secure = True
        guarded.front.tls = tls(authority().issue_cert("gw.example"))
        guarded.front.listen()
        if protocol == GRPC:
            export(OtlpGrpc(guarded.endpoint, GrpcTls(str(ca), "", "", "gw.example")))
        else:
            export(OtlpHttp(guarded.endpoint, tls=HttpTls(str(ca), "", "", "gw.example")))

        assert len(guarded.collector.taken) == 1


@pytest.mark.parametrize("protocol", [GRPC, HTTP])
def test_renewed_certificates_are_taken_up(tmp_path: Path, protocol: str) -> None:
    """As for the counts; what is not whole yet changes nothing."""
    ca = tmp_path / "ca.pem"
    other_authority().cert_pem.write_to_path(str(ca))
    with scene(protocol) as guarded:
        guarded.secure = True
        guarded.front.tls = tls(authority().issue_cert("127.0.0.1"))
        guarded.front.listen()
        if protocol == GRPC:
            one = telemetry(
                OtlpGrpc(guarded.endpoint, GrpcTls(str(ca)), timeout_s=1), interval_s=0.05
            )
        else:
            one = telemetry(
                OtlpHttp(guarded.endpoint, tls=HttpTls(str(ca)), timeout_s=1), interval_s=0.05
            )
        until(lambda: guarded.front.connections >= 1)
        ca.write_text("half")
        os.utime(ca, ns=(1, 1))
        time.sleep(0.2)  # some intervals
        assert guarded.collector.taken == []

        authority().cert_pem.write_to_path(str(ca))
        os.utime(ca, ns=(2, 2))
        until(lambda: len(guarded.collector.taken) > 0)
        one.close(deadline_s=5)


def test_a_collector_that_is_away_is_one_line(
    collector: FakeHttpCollector, caplog: pytest.LogCaptureFixture
) -> None:
    """And one when it is back."""
    caplog.set_level(logging.INFO, "xpumeter")
    collector.answer = lambda _request: status(503)
    endpoint = f"http://127.0.0.1:{collector.port}"
    one = telemetry(OtlpHttp(endpoint, timeout_s=0.2), interval_s=0.05)
    until(lambda: collector.tries >= 4)
    collector.answer = FakeHttpCollector().answer
    until(lambda: len(collector.taken) >= 2)
    one.close(deadline_s=5)

    assert [line.split("state=")[1] for line in caplog.messages] == ["failing", "OK"]


def test_the_users_attributes_are_on_its_resource(
    collector: FakeHttpCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME come before what we would say."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=c1,service.version=mine")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "accounting")
    export(OtlpHttp(f"http://127.0.0.1:{collector.port}"))

    attributes = {
        pair.key: pair.value.string_value
        for pair in collector.taken[0].resource_metrics[0].resource.attributes
    }
    assert (
        attributes.items()
        >= {
            "k8s.cluster.name": "c1",
            "service.version": "mine",
            "service.name": "accounting",
        }.items()
    )


def test_over_grpc_nothing_of_http_is_imported() -> None:
    """It would be five packages of memory for nothing."""
    program = (
        "import sys\n"
        "from xpumeter.destination import OtlpGrpc\n"
        "from xpumeter.export.own_exporter import own_exporter\n"
        "from xpumeter.export.transport import open_transport\n"
        "open_transport(OtlpGrpc()), own_exporter(OtlpGrpc())\n"
        "print(sorted({'requests', 'urllib3'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)

    assert done.stdout == b"[]\n"
