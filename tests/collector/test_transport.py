# SPDX-License-Identifier: Apache-2.0
"""Each way to a real Collector: both protocols, with certificates, compressed, over sockets."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from fake_collector import until
from lab.collector import Collector
from otlp_samples import new, series, snapshot
from scene import GRPC, HTTP
from senders import LATE, sender
from xpumeter.destination import (
    Compression,
    Destination,
    GrpcTls,
    HttpTls,
    OtlpGrpc,
    OtlpHttp,
)
from xpumeter.export.messages import Batch
from xpumeter.export.own_exporter import own_exporter
from xpumeter.export.telemetry import Telemetry
from xpumeter.model.owners import Owner
from xpumeter.model.stats import AgentStats

pytestmark = pytest.mark.collector

MANY = [series(Owner(cgroup=f"/{'x' * 200}/{number}")) for number in range(2000)]


@dataclass(frozen=True, slots=True)
class Gate:
    """A Collector that listens in every way, and the files for those that take certificates."""

    collector: Collector
    ports: dict[str, int]
    sockets: dict[str, Path]
    files: dict[str, str]

    def to(self, protocol: str, **options: Any) -> Destination:
        """Over the loopback, plain."""
        endpoint = f"http://127.0.0.1:{self.ports[protocol]}"
        return (OtlpGrpc if protocol == GRPC else OtlpHttp)(endpoint, **options)

    def securely_to(self, protocol: str, **files: str) -> Destination:
        endpoint = f"https://127.0.0.1:{self.ports[f'{protocol} tls']}"
        if protocol == GRPC:
            return OtlpGrpc(endpoint, GrpcTls(**(self.files | files)))  # type: ignore[arg-type]
        return OtlpHttp(endpoint, tls=HttpTls(**(self.files | files)))  # type: ignore[arg-type]

    def to_socket(self, protocol: str) -> Destination:
        endpoint = f"unix://{self.sockets[protocol]}"
        return OtlpGrpc(endpoint) if protocol == GRPC else OtlpHttp(endpoint)

    def shown(self) -> int:
        """Series of calls that a scrape shows."""
        return sum(s.name == "xpumeter_calls_total" for s in self.collector.scrape())


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def written(file: Path, *blobs: trustme.Blob) -> str:
    for blob in blobs:
        blob.write_to_path(str(file), append=True)
    return str(file)


@pytest.fixture(scope="module")
def gate(
    otelcol_program: Path, prometheus_config: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gate]:
    folder = tmp_path_factory.mktemp("gate")
    authority = trustme.CA()
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("agent")
    ca = written(folder / "ca.pem", authority.cert_pem)
    tls = {
        "cert_file": written(folder / "server.pem", *server.cert_chain_pems),
        "key_file": written(folder / "server.key", server.private_key_pem),
        "client_ca_file": ca,
    }
    ports = {
        name: free_port()
        for name in ("grpc", "http", "grpc tls", "http tls", "grpc small", "http small")
    }
    sockets = {GRPC: folder / "grpc.sock", HTTP: folder / "http.sock"}
    at = {name: {"endpoint": f"127.0.0.1:{port}"} for name, port in ports.items()}
    config = yaml.safe_load(prometheus_config.read_text())
    config["receivers"] = {
        "otlp": {"protocols": {"grpc": at["grpc"], "http": at["http"]}},
        "otlp/tls": {
            "protocols": {
                "grpc": {**at["grpc tls"], "tls": tls},
                "http": {**at["http tls"], "tls": tls},
            }
        },
        "otlp/small": {
            "protocols": {
                "grpc": {**at["grpc small"], "max_recv_msg_size_mib": 1},
                "http": {**at["http small"], "max_request_body_size": 200_000},
            }
        },
        "otlp/unix": {
            "protocols": {
                GRPC: {"endpoint": str(sockets[GRPC]), "transport": "unix"},
                HTTP: {"endpoint": str(sockets[HTTP]), "transport": "unix"},
            }
        },
    }
    config["service"]["pipelines"]["metrics"]["receivers"] = list(config["receivers"])
    file = folder / "collector.yaml"
    file.write_text(yaml.safe_dump(config))
    files = {
        "ca_file": ca,
        "cert_file": written(folder / "agent.pem", *client.cert_chain_pems),
        "key_file": written(folder / "agent.key", client.private_key_pem),
    }
    with Collector(otelcol_program, file, folder) as running:
        yield Gate(running, ports, sockets, files)


def deliver(destination: Destination, batch: Batch) -> int:
    """Bring a batch there; how many requests that took."""
    one = sender(destination, LATE)
    one.send(batch)
    until(lambda: one.stats.exports == 1, seconds=30)
    one.close(deadline_s=1)
    assert one.stats.failures == {}
    return one.stats.requests


def batch_of(*names: str) -> Batch:
    shown = snapshot(*(series(Owner(cgroup=name)) for name in names))
    return new().update(shown, delivered=0)


@pytest.mark.parametrize("protocol", [GRPC, HTTP])
@pytest.mark.parametrize("way", ["plain", "gzip", "certificates", "socket"])
def test_counts_and_the_agents_own_metrics_arrive(gate: Gate, protocol: str, way: str) -> None:
    """Whichever way is named."""
    destination = {
        "plain": lambda: gate.to(protocol),
        "gzip": lambda: gate.to(protocol, compression=Compression.GZIP),
        "certificates": lambda: gate.securely_to(protocol),
        "socket": lambda: gate.to_socket(protocol),
    }[way]()
    name = f"/{protocol}/{way}"

    assert deliver(destination, batch_of(name)) == 1
    host = {"host.name": name}
    own = own_exporter(destination)
    Telemetry(AgentStats, own, version="1", host=host).close(deadline_s=5)

    samples = gate.collector.scrape()
    labels = [sample.labels for sample in samples if sample.name == "xpumeter_calls_total"]
    assert name in [each["process_linux_cgroup"] for each in labels]
    own_labels = [sample.labels for sample in samples if sample.name == "xpumeter_row_usage"]
    assert name in [each["host_name"] for each in own_labels]


@pytest.mark.parametrize("protocol", [GRPC, HTTP])
def test_without_a_certificate_nothing_arrives(gate: Gate, protocol: str) -> None:
    """The Collector wants to see one."""
    one = sender(gate.securely_to(protocol, cert_file="", key_file=""), LATE)
    one.send(batch_of(f"/{protocol}/stranger"))
    until(lambda: one.stats.requests == 1)
    one.close(deadline_s=1)

    assert one.delivered == 0
    assert set(one.stats.failures) <= {"UNAVAILABLE", "tls", "connection"}


@pytest.mark.parametrize("protocol", [GRPC, HTTP])
def test_what_is_too_large_for_it_is_halved(gate: Gate, protocol: str) -> None:
    """It says so with RESOURCE_EXHAUSTED over gRPC, and with 400 over HTTP."""
    batch = new().update(snapshot(*MANY), delivered=0)
    endpoint = f"http://127.0.0.1:{gate.ports[f'{protocol} small']}"
    before = gate.shown()

    requests = deliver(OtlpGrpc(endpoint) if protocol == GRPC else OtlpHttp(endpoint), batch)

    assert len(batch.parts) == 1
    assert requests > 1
    assert gate.shown() >= max(before, len(MANY))
