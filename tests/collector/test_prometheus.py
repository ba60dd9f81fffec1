# SPDX-License-Identifier: Apache-2.0
"""What the agent sends is what a real Collector shows to Prometheus, with the file we ship."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporting import NOW, Agent, exporting, label_sets, named
from fake_collector import until
from lab.collector import Collector, Sample
from otlp_samples import GPU, NPU, SECOND, SERVICE, TRAINER, new, series
from xpumeter.destination import OtlpGrpc
from xpumeter.export.messages import Messages
from xpumeter.export.own_exporter import own_exporter
from xpumeter.export.telemetry import Telemetry
from xpumeter.model.calls import Kind, Reason
from xpumeter.model.exports import ExportStats
from xpumeter.model.owners import Owner
from xpumeter.model.series import InFlight, Point, Series
from xpumeter.model.stats import AgentStats

pytestmark = pytest.mark.collector

OTHER_SERVICE = replace(SERVICE, cgroup="/system.slice/other.service")


@pytest.fixture
def agent(collector: Collector) -> Iterator[Agent]:
    with exporting(collector) as one:
        yield one


def test_prometheus_shows_what_was_counted(collector: Collector, agent: Agent) -> None:
    """Every series, every label, every value, and nothing else."""
    agent.push(
        Series(
            TRAINER,
            GPU,
            calls={(Kind.SUBMIT, 0): Point(7, NOW), (Kind.SUBMIT, 12): Point(2, NOW)},
            time_ns={Kind.SUBMIT: Point(2_500_000_000, NOW)},
            interrupted={Kind.WAIT: Point(3, NOW)},
            ended=False,
            in_flight={Kind.WAIT: InFlight(2, 1_500_000_000)},
        ),
        series(SERVICE, calls=5),
        devices=(GPU,),
        unattributed={
            (GPU.device_id, Reason.UNKNOWN_CGROUP): Point(4, NOW),
            (None, Reason.UNKNOWN_DEVICE): Point(6, NOW),
        },
    )

    host = {"host_name": "h1"}
    device = host | {
        "hw_id": "0000:03:00.0",
        "hw_type": "gpu",
        "hw_vendor": "Intel",
        "xpumeter_driver": "xe",
    }
    trainer = device | {
        "k8s_namespace_name": "ml",
        "k8s_pod_name": "trainer-0",
        "k8s_pod_uid": "uid-1",
        "k8s_container_name": "main",
        "container_id": "c" * 64,
    }
    submit, wait = {"xpumeter_call_kind": "submit"}, {"xpumeter_call_kind": "wait"}
    service = device | {"process_linux_cgroup": "/system.slice/media.service"}
    pci = {"xpumeter_device_pci_id": "8086:e20b", "xpumeter_device_numa_node": "0"}
    unattributed = "xpumeter_call_unattributed_total"
    assert label_sets(collector.scrape()) == label_sets(
        [
            Sample("xpumeter_calls_total", trainer | submit, 7),
            Sample("xpumeter_calls_total", trainer | submit | {"error_type": "ENOMEM"}, 2),
            Sample("xpumeter_call_time_seconds_total", trainer | submit, 2.5),
            Sample("xpumeter_call_interrupted_total", trainer | wait, 3),
            Sample("xpumeter_call_active", trainer | submit, 0),
            Sample("xpumeter_call_active", trainer | wait, 2),
            Sample("xpumeter_call_oldest_seconds", trainer | wait, 1.5),
            Sample("xpumeter_calls_total", service | submit, 5),
            Sample("xpumeter_device_info", device | pci, 1),
            Sample(unattributed, device | {"xpumeter_reason": "unknown_cgroup"}, 4),
            Sample(unattributed, host | {"xpumeter_reason": "unknown_device"}, 6),
        ]
    )


def push_what_differs_in_one_attribute(collector: Collector) -> list[float]:
    """Pairs that only a Resource attribute tells apart; gives the values that a scrape shows."""
    other_host = Messages(version="1.2.3", host={"host.name": "h2"})
    with exporting(collector) as one, exporting(collector, other_host) as other:
        one.push(
            series(TRAINER, GPU, calls=1),
            series(TRAINER, NPU, calls=2),
            series(SERVICE, GPU, calls=4),
            series(OTHER_SERVICE, GPU, calls=8),
        )
        other.push(series(SERVICE, GPU, calls=16))
    return sorted(sample.value for sample in named(collector.scrape(), "xpumeter_calls_total"))


def test_two_devices_two_services_and_two_hosts_stay_apart(collector: Collector) -> None:
    """One container on two devices, two services of a host, one address on two hosts."""
    assert push_what_differs_in_one_attribute(collector) == [1, 2, 4, 8, 16]


def test_without_the_copied_attributes_they_would_overwrite_each_other(
    otelcol_program: Path, prometheus_config: Path, tmp_path: Path
) -> None:
    """This is what `resource_constant_labels` is for: the last to arrive is all that is left."""
    changed: dict[str, Any] = yaml.safe_load(prometheus_config.read_text())
    del changed["exporters"]["prometheus"]["resource_constant_labels"]
    without = tmp_path / "without.yaml"
    without.write_text(yaml.safe_dump(changed))

    with Collector(otelcol_program, without, tmp_path) as collector:
        assert len(push_what_differs_in_one_attribute(collector)) == 1


def test_the_end_of_a_container_removes_all_its_series(collector: Collector) -> None:
    """Its last values are seen first; others stay."""
    kinds = {(kind, 0): Point(3, NOW) for kind in Kind}
    times = {kind: Point(SECOND, NOW) for kind in Kind}
    alive = [Series(TRAINER, device, kinds, times, times, ended=False) for device in (GPU, NPU)]
    last = {**kinds, (Kind.SUBMIT, 0): Point(9, NOW)}
    ended = [replace(each, calls=last, ended=True) for each in alive]
    service = series(SERVICE, calls=5)

    with exporting(collector, new(linger_s=10)) as agent:
        agent.push(*alive, service)
        assert len(collector.scrape()) == 2 * 20 + 1

        agent.push(*ended, service)
        seen = collector.scrape()
        assert len(seen) == 2 * 20 + 1
        assert sum(sample.value for sample in named(seen, "xpumeter_calls_total")) == (
            2 * (9 + 4 * 3) + 5
        )

        agent.push(*ended, service)
        (left,) = collector.scrape()
        assert (left.labels["process_linux_cgroup"], left.value) == (SERVICE.cgroup, 5)


def test_when_a_call_returned_its_age_is_gone_and_comes_again(
    collector: Collector, agent: Agent
) -> None:
    """The number stays, at 0; the age of another kind stays too."""
    times = {Kind.WAIT: Point(SECOND, NOW), Kind.SUBMIT: Point(SECOND, NOW)}
    idle = Series(TRAINER, GPU, {}, times, {}, ended=False)
    both = {Kind.WAIT: InFlight(1, 30 * SECOND), Kind.SUBMIT: InFlight(1, SECOND)}

    def shown(calls: dict[Kind, InFlight]) -> dict[tuple[str, str], float]:
        agent.push(replace(idle, in_flight=calls))
        return {
            (each.name, each.labels["xpumeter_call_kind"]): each.value
            for each in collector.scrape()
            if each.name in (active, oldest)
        }

    active, oldest = "xpumeter_call_active", "xpumeter_call_oldest_seconds"
    before = shown(both)
    after = shown({Kind.SUBMIT: InFlight(1, 11 * SECOND)})
    assert before == {
        (active, "wait"): 1,
        (active, "submit"): 1,
        (oldest, "wait"): 30,
        (oldest, "submit"): 1,
    }
    assert after == {(active, "wait"): 0, (active, "submit"): 1, (oldest, "submit"): 11}
    assert shown(both) == before


def test_a_collector_that_was_down_gets_the_newest_totals(
    collector: Collector, agent: Agent
) -> None:
    """Also those of a container that ended meanwhile."""
    agent.push(series(TRAINER, calls=1), series(SERVICE, calls=1))
    collector.stop()
    agent.push(series(TRAINER, calls=5, ended=True), series(SERVICE, calls=2), wait=False)
    until(lambda: agent.sender.stats.requests >= 2)
    for calls in range(3, 50):
        agent.push(series(TRAINER, calls=5, ended=True), series(SERVICE, calls=calls), wait=False)
    collector.start()
    agent.push(series(TRAINER, calls=5, ended=True), series(SERVICE, calls=50))

    assert sorted(s.value for s in named(collector.scrape(), "xpumeter_calls_total")) == [5, 50]
    assert agent.sender.stats.failed >= 1


@pytest.mark.parametrize("limit_bytes", [3 << 20, 1 << 30], ids=["split by us", "halved"])
def test_more_than_a_receiver_takes_at_once_arrives(collector: Collector, limit_bytes: int) -> None:
    """A receiver takes 4 MiB: we stay below; were it less, the batch would be halved."""
    many = [series(Owner(cgroup=f"/{'x' * 800}/{number}")) for number in range(5000)]

    with exporting(collector, new(limit_bytes=limit_bytes)) as agent:
        agent.push(*many)

        assert len(named(collector.scrape(), "xpumeter_calls_total")) == 5000
        assert agent.sender.stats.failed == 0


def test_the_agents_own_metrics_are_a_job_of_their_own(collector: Collector) -> None:
    """Under `job="xpumeter"`, beside the series of containers."""
    Telemetry(
        lambda: AgentStats(rows=5, exports=ExportStats(4, {"UNAVAILABLE": 1})),
        own_exporter(OtlpGrpc(collector.otlp_endpoint)),
        version="1.2.3",
        host={"host.name": "h1"},
    ).close(deadline_s=5)

    (rows,) = named(collector.scrape(), "xpumeter_row_usage")
    assert rows.value == 5
    assert rows.labels.items() >= {"job": "xpumeter", "host_name": "h1"}.items()
    exports = named(collector.scrape(), "xpumeter_exports_total")
    assert {sample.labels.get("error_type"): sample.value for sample in exports} == {
        None: 3,
        "UNAVAILABLE": 1,
    }


def test_the_shipped_file_draws_no_complaint(collector: Collector, agent: Agent) -> None:
    """No warning in the Collector's log, of deprecation or else, from start to end."""
    agent.push(series())
    collector.scrape()
    collector.stop()

    levels = {line.split("\t")[1] for line in collector.log.splitlines() if "\t" in line}
    assert levels == {"info"}
    assert "deprecat" not in collector.log.lower()
