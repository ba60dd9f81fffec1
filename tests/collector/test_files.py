# SPDX-License-Identifier: Apache-2.0
"""Every Collector file that we ship starts on a real Collector, and does what it says."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from exporting import Agent, exporting, named
from fake_collector import until
from fake_kubernetes import api_server, pod
from lab.collector import Collector
from lab.otelcol import PINNED
from otlp_samples import NPU, SERVICE, TRAINER, series
from xpumeter.model.owners import Owner

pytestmark = pytest.mark.collector

PROBE = 99
PODS = (
    pod(
        "trainer-abc12-x",
        "uid-1",
        container="main",
        container_id="c" * 64,
        node="n1",
        ip="10.0.0.7",
        owner="trainer-abc12",
    ),
    # The pod that all series come from, as the Collector's connections show it.
    pod(
        "xpumeter-agent",
        "uid-9",
        container="run",
        container_id="9" * 64,
        node="n1",
        ip="127.0.0.1",
    ),
)


@dataclass(frozen=True, slots=True)
class Chain:
    """An agent, the Collector of its host, and the gateway behind it."""

    agent: Agent
    node: Collector
    gateway: Collector

    def arrived(self, *values: int) -> dict[float, Mapping[str, str]]:
        """Labels of the series that have these counts, once the gateway shows all of them."""
        found: dict[float, Mapping[str, str]] = {}

        def all_there() -> bool:
            samples = named(self.gateway.scrape(), "xpumeter_calls_total")
            found.update({sample.value: sample.labels for sample in samples})
            return found.keys() >= set(values)

        until(all_there, seconds=30)
        return found

    def until_api_server_was_heard(self) -> None:
        """Names come when it answers: with a series of their own, until they do."""

        def heard() -> bool:
            self.agent.push(series(Owner(container_id="c" * 64), calls=PROBE))
            return any("k8s_pod_name" in sample.labels for sample in self.gateway.scrape())

        until(heard, seconds=30)


@pytest.fixture
def chain(otelcol_program: Path, tmp_path: Path) -> Iterator[Chain]:
    folders = tmp_path / "gateway", tmp_path / "node"
    for folder in folders:
        folder.mkdir()
    with (
        api_server(tmp_path, PODS) as kubeconfig,
        Collector(otelcol_program, PINNED / "gateway.yaml", folders[0]) as gateway,
        Collector(
            otelcol_program,
            PINNED / "node.yaml",
            folders[1],
            environment={
                "GATEWAY_ENDPOINT": gateway.otlp_endpoint.removeprefix("http://"),
                "K8S_AUTH_TYPE": "kubeConfig",
                "KUBECONFIG": str(kubeconfig),
                "K8S_NODE_NAME": "n1",
            },
        ) as node,
        exporting(node) as agent,
    ):
        yield Chain(agent, node, gateway)


def test_what_the_runtime_did_not_tell_the_api_server_does(chain: Chain) -> None:
    """By pod uid, also of a container that it does not show; else by container id."""
    by_id = Owner(container_id="c" * 64)
    by_both = Owner(pod_uid="uid-1", container_id="c" * 64)
    by_uid = Owner(pod_uid="uid-1", container_id="e" * 64)
    chain.until_api_server_was_heard()
    chain.agent.push(series(by_id, calls=1), series(by_both, NPU, calls=2), series(by_uid, calls=3))

    labels = chain.arrived(1, 2, 3)
    for value in (1, 2, 3):
        assert labels[value].items() >= {
            ("k8s_namespace_name", "ml"),
            ("k8s_pod_name", "trainer-abc12-x"),
            ("k8s_pod_uid", "uid-1"),
            ("k8s_deployment_name", "trainer"),
        }
    assert labels[1]["k8s_container_name"] == labels[2]["k8s_container_name"] == "main"
    assert "k8s_container_name" not in labels[3]


def test_nobody_gets_the_names_of_the_agents_own_pod(chain: Chain) -> None:
    """A service of the host and a container that the API server does not know stay as sent."""
    stranger = replace(TRAINER, pod_uid="uid-7", container_id="7" * 64, pod="other")
    chain.until_api_server_was_heard()
    chain.agent.push(series(SERVICE, calls=5), series(stranger, calls=6))

    labels = chain.arrived(5, 6)
    assert not [name for name in labels[5] if name.startswith("k8s_")]
    assert labels[6]["k8s_pod_name"] == "other"
    assert "k8s_deployment_name" not in labels[6]


def test_what_the_gateway_did_not_get_was_not_delivered(chain: Chain) -> None:
    """The last value of a container is sent again until somebody has it who keeps it."""
    chain.agent.push(series(calls=1))
    delivered = chain.agent.sender.delivered
    chain.gateway.stop()
    chain.agent.push(series(calls=2, ended=True), wait=False)
    until(lambda: chain.agent.sender.stats.failed + chain.agent.sender.stats.requests >= 2)
    time.sleep(1)
    assert chain.agent.sender.delivered == delivered

    chain.gateway.start()
    chain.agent.push(series(calls=2, ended=True))
    chain.arrived(2)


def test_no_file_draws_a_complaint(chain: Chain) -> None:
    """No warning in the log of either, of deprecation or else, from start to end."""
    chain.agent.push(series(calls=1))
    chain.arrived(1)
    chain.node.stop()
    chain.gateway.stop()

    for log in (chain.node.log, chain.gateway.log):
        assert {line.split("\t")[1] for line in log.splitlines() if "\t" in line} == {"info"}
        assert "deprecat" not in log.lower()
