# SPDX-License-Identifier: Apache-2.0
"""Dashboards made for KubeNPU find what they ask for."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from exporting import NOW, Agent, exporting, label_sets, named
from lab.collector import Collector, Sample
from lab.otelcol import PINNED
from otlp_samples import GPU, NPU, SECOND, SERVICE, TRAINER, new, series
from xpumeter.destination import OtlpGrpc
from xpumeter.export.own_exporter import own_exporter
from xpumeter.export.telemetry import Telemetry
from xpumeter.model.calls import Kind, Reason
from xpumeter.model.series import Point, Series
from xpumeter.model.stats import AgentStats, Request

pytestmark = pytest.mark.collector

FILE = PINNED / "kubenpu-names.yaml"
RESTARTED = replace(TRAINER, container_id="d" * 64)


@pytest.fixture
def kubenpu(otelcol_program: Path, tmp_path: Path) -> Iterator[Collector]:
    with Collector(otelcol_program, FILE, tmp_path) as running:
        yield running


@pytest.fixture
def agent(kubenpu: Collector) -> Iterator[Agent]:
    with exporting(kubenpu, new(linger_s=10)) as one:
        yield one


def of_trainer(vendor: str, device: str, kind: str) -> dict[str, str]:
    return {
        "host": "h1",
        "pod": "trainer-0",
        "namespace": "ml",
        "container": "main",
        "container_id": "c" * 64,
        "vendor": vendor,
        "device": device,
        "kind": kind,
    }


def test_their_names_and_labels_with_our_counts(kubenpu: Collector, agent: Agent) -> None:
    """Outcomes are summed, not overwritten; what has no pod is left out; their vendor names."""
    calls = {
        (Kind.SUBMIT, 0): Point(7, NOW),
        (Kind.SUBMIT, 12): Point(2, NOW),
        (Kind.ALLOC, 0): Point(3, NOW),
        (Kind.WAIT, 62): Point(5, NOW),
        (Kind.FREE, 0): Point(4, NOW),
        (Kind.OTHER, 0): Point(4, NOW),
    }
    times = {kind: Point(SECOND, NOW) for kind in Kind}
    i915 = replace(GPU, driver="i915")
    agent.push(
        Series(TRAINER, i915, calls, times, times, ended=False),
        Series(TRAINER, NPU, {(Kind.SUBMIT, 0): Point(1, NOW)}, {}, {}, ended=False),
        series(SERVICE, i915, calls=5),
        devices=(i915, NPU),
        unattributed={
            (GPU.device_id, Reason.UNKNOWN_CGROUP): Point(4, NOW),
            (NPU.device_id, Reason.UNKNOWN_CGROUP): Point(8, NOW),
            (GPU.device_id, Reason.FILTERED): Point(9, NOW),
            (None, Reason.UNKNOWN_DEVICE): Point(6, NOW),
        },
    )
    telemetry = Telemetry(
        AgentStats,
        own_exporter(OtlpGrpc(kubenpu.otlp_endpoint)),
        version="1.2.3",
        host={"host.name": "h1"},
    )
    for error in ("", "", "", "UNAVAILABLE", "UNAVAILABLE"):
        telemetry.requested(Request("ListContainers", 0.1, error))
    telemetry.close(deadline_s=5)

    gpu, npu = "0000:03:00.0", "0000:00:0b.0"
    info = {"host": "h1", "pci_id": "8086:e20b", "numa_node": "0"}
    dropped = {"host": "h1", "reason": "unknown_cgroup"}
    assert label_sets(kubenpu.scrape_kubenpu()) == label_sets(
        [
            Sample("kubenpu_ioctl_total", of_trainer("i915", gpu, "submit"), 9),
            Sample("kubenpu_ioctl_total", of_trainer("i915", gpu, "alloc"), 3),
            Sample("kubenpu_ioctl_total", of_trainer("i915", gpu, "wait"), 5),
            Sample("kubenpu_ioctl_total", of_trainer("ivpu", npu, "submit"), 1),
            Sample(
                "kubenpu_device_info", info | {"device": gpu, "vendor": "i915", "driver": "i915"}, 1
            ),
            Sample(
                "kubenpu_device_info",
                info | {"device": npu, "vendor": "ivpu", "driver": "intel_vpu"},
                1,
            ),
            Sample("kubenpu_events_dropped_total", dropped | {"device": gpu}, 4),
            Sample("kubenpu_events_dropped_total", dropped | {"device": npu}, 8),
            Sample("kubenpu_events_dropped_total", {"host": "h1", "reason": "unknown_device"}, 6),
            Sample("kubenpu_cgroup_index_rebuilds_total", {"host": "h1"}, 5),
        ]
    )


def test_the_end_of_a_container_does_not_end_its_successor(
    kubenpu: Collector, agent: Agent
) -> None:
    """Same pod, same container, another id: each has its own series and its own end."""
    failed = {(Kind.SUBMIT, 0): Point(7, NOW), (Kind.SUBMIT, 12): Point(2, NOW)}
    old = Series(TRAINER, GPU, failed, {}, {}, ended=False)
    new_one = series(RESTARTED, calls=1)
    agent.push(old)
    agent.push(replace(old, ended=True), new_one)
    both = {sample.value for sample in named(kubenpu.scrape_kubenpu(), "kubenpu_ioctl_total")}
    assert both == {9, 1}

    agent.push(replace(old, ended=True), new_one)
    agent.push(replace(old, ended=True), new_one)

    (left,) = named(kubenpu.scrape_kubenpu(), "kubenpu_ioctl_total")
    assert (left.labels["container_id"], left.value) == ("d" * 64, 1)


def test_beside_the_native_names(
    otelcol_program: Path, prometheus_config: Path, tmp_path: Path
) -> None:
    """Two files, one Collector: neither changes what the other shows."""
    with (
        Collector(otelcol_program, (prometheus_config, FILE), tmp_path) as both,
        exporting(both) as agent,
    ):
        agent.push(series(TRAINER, calls=7), series(TRAINER, calls=7, error=12, device=NPU))

        native = named(both.scrape(), "xpumeter_calls_total")
        assert {sample.labels.get("error_type") for sample in native} == {None, "ENOMEM"}
        assert len(named(both.scrape_kubenpu(), "kubenpu_ioctl_total")) == 2
