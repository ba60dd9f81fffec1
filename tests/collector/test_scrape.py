# SPDX-License-Identifier: Apache-2.0
"""Two ways, one truth: the agent's own page, and what the Collector makes of its batches."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fake_collector import until
from lab.collector import Collector, Sample, parse
from lab.otelcol import PINNED
from lab.prometheus import Prometheus
from otlp_samples import GPU, HOST, NPU, SECOND, SERVICE, TRAINER, new
from xpumeter.destination import OtlpGrpc
from xpumeter.export import own, prometheus
from xpumeter.export.own_exporter import own_exporter
from xpumeter.export.prometheus import Scrape
from xpumeter.export.sender import Sender
from xpumeter.export.telemetry import Telemetry
from xpumeter.export.transport import open_transport
from xpumeter.model.calls import Kind, Reason
from xpumeter.model.exports import ExportStats
from xpumeter.model.kernel import Losses
from xpumeter.model.series import Point, Series, Snapshot
from xpumeter.model.stats import AgentStats, Request

pytestmark = pytest.mark.collector

NOW = 1_700_000_000 * SECOND
TIMES = {kind: Point(i * SECOND + 1, NOW) for i, kind in enumerate(Kind)}
CALLS = {(kind, error): Point(10**6 + error, NOW) for kind in Kind for error in (0, 12, 524)}
ODD = replace(TRAINER, pod='a"b\\c', container="d\ne", namespace="æ")
ALL = (
    Series(TRAINER, GPU, CALLS, TIMES, TIMES, ended=False),
    Series(TRAINER, NPU, CALLS, TIMES, {}, ended=False),
    Series(SERVICE, GPU, CALLS, TIMES, {}, ended=False),
    Series(ODD, replace(GPU, vendor=None, hw_type=None), CALLS, TIMES, {}, ended=False),
)
UNATTRIBUTED = {
    (GPU.device_id, Reason.UNKNOWN_CGROUP): Point(4, NOW),
    (None, Reason.UNKNOWN_DEVICE): Point(6, NOW),
}
STATS = AgentStats(
    rows=5,
    row_limit=16384,
    refused=1,
    losses=Losses(events=3, returns=1),
    missed={"return_stub": 2, "entry_stub": 0},
    bad_records=7,
    unresolved=1,
    unresolved_age_s=2.5,
    exports=ExportStats(4, {"UNAVAILABLE": 1}, points=9, rejected_points=2, duration_s=1.5),
    hook="fexit",
    version="1.2.3",
    object_sha256="0123456789abcdef",
)
MOVING = ("process_", "xpumeter_thread_", "xpumeter_file_descriptor_usage")
"""What is another value a moment later."""


def snapshot(*series: Series, at: int = 0) -> Snapshot:
    return Snapshot(NOW + at * SECOND, at * SECOND, series, (GPU, NPU), UNATTRIBUTED)


def scraping(telemetry: Telemetry | None = None) -> Scrape:
    return Scrape(version="1.2.3", host=HOST, linger_s=60, own=telemetry.now if telemetry else None)


def page(scrape: Scrape, accept: str = "") -> str:
    return scrape.answer({"accept": accept}).body.decode()


@pytest.fixture
def telemetry(collector: Collector) -> Iterator[Telemetry]:
    """The agent's own metrics, each with a point; closing it sends them to the Collector."""
    one = Telemetry(
        lambda: STATS,
        own_exporter(OtlpGrpc(collector.otlp_endpoint)),
        version="1.2.3",
        host=HOST,
        interval_s=3600,
    )
    for method in own.RPC_METHOD.values:
        one.requested(Request(method, 0.02, ""))
        one.requested(Request(method, 20, "DEADLINE_EXCEEDED"))
    one.collected(0.003)
    yield one
    one.close(deadline_s=5)


def keyed(samples: tuple[Sample, ...]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Values by name and labels; it is an error if two samples have both in common."""
    found = {(each.name, frozenset(each.labels.items())): each.value for each in samples}
    assert len(found) == len(samples)
    return found


def test_containers_and_devices_are_the_same_series_both_ways(collector: Collector) -> None:
    """Series by series, label by label, value by value; odd names escaped alike."""
    sender, scrape = Sender(open_transport(OtlpGrpc(collector.otlp_endpoint))), scraping()
    shown = snapshot(*ALL)
    sender.send(new().update(shown, delivered=0))
    until(lambda: sender.delivered == 1, seconds=30)
    scrape.update(shown)
    sender.close(deadline_s=1)

    direct = keyed(parse(page(scrape)))

    assert len(direct) == 4 * (15 + 5 + 5) + 5 + 2 + 2
    assert direct == keyed(collector.scrape())


def test_types_and_descriptions_are_the_same_both_ways(
    collector: Collector, telemetry: Telemetry
) -> None:
    """HELP and TYPE, of containers, devices and the agent."""
    sender, scrape = Sender(open_transport(OtlpGrpc(collector.otlp_endpoint))), scraping(telemetry)
    shown = snapshot(*ALL)
    sender.send(new().update(shown, delivered=0))
    scrape.update(shown)
    text = page(scrape)
    telemetry.close(deadline_s=5)
    sender.close(deadline_s=5)

    direct, collected = (
        {
            line
            for line in each.splitlines()
            if line.startswith("# ") and " target_info " not in line
        }
        for each in (text, collector.text())
    )
    assert direct == collected


def test_the_agent_itself_is_the_same_both_ways(collector: Collector, telemetry: Telemetry) -> None:
    """All but `job` and `instance`: a scrape gives those of its target."""
    direct = keyed(parse(page(scraping(telemetry))))
    telemetry.close(deadline_s=5)
    collected = keyed(
        tuple(
            replace(
                each, labels={k: v for k, v in each.labels.items() if k not in {"job", "instance"}}
            )
            for each in collector.scrape()
        )
    )

    def steady(samples: dict[tuple[str, frozenset[tuple[str, str]]], float]) -> object:
        return {
            key: None if key[0].startswith(MOVING) else value
            for key, value in samples.items()
            if key[0] != "target_info"
        }

    assert steady(direct) == steady(collected)
    assert {name for name, _ in direct} >= {
        "xpumeter_row_usage",
        "xpumeter_row_limit",
        "xpumeter_losses_total",
        "xpumeter_owner_unresolved_age_seconds",
        "rpc_client_call_duration_seconds_bucket",
        "otel_sdk_exporter_metric_data_point_exported_total",
        "process_cpu_time_seconds_total",
        "process_memory_usage_bytes",
        "process_uptime_seconds",
    }


def test_target_info_has_the_whole_resource(collector: Collector, telemetry: Telemetry) -> None:
    """The Collector takes name and instance out of it, for `job` and `instance`."""
    (direct,) = (s for s in parse(page(scraping(telemetry))) if s.name == "target_info")
    telemetry.close(deadline_s=5)
    (collected,) = (s for s in collector.scrape() if s.name == "target_info")

    names = {"job": "service_name", "instance": "service_instance_id"}
    assert direct.labels == {names.get(k, k): v for k, v in collected.labels.items()}
    assert direct.labels["service_version"] == "1.2.3"


def test_labels_are_those_of_the_shipped_file() -> None:
    """What is copied there is copied here."""
    file = yaml.safe_load((PINNED / "prometheus.yaml").read_text())
    globs = file["exporters"]["prometheus"]["resource_constant_labels"]["included"]

    assert sorted(prometheus.LABELS) == sorted(glob.removesuffix("*") for glob in globs)


def test_the_linter_has_nothing_to_say(
    collector: Collector, telemetry: Telemetry, prometheus_tools: Prometheus
) -> None:
    """`promtool check metrics`, on both ways."""
    sender, scrape = Sender(open_transport(OtlpGrpc(collector.otlp_endpoint))), scraping(telemetry)
    sender.send(new().update(snapshot(*ALL), delivered=0))
    scrape.update(snapshot(*ALL))
    text = page(scrape)
    telemetry.close(deadline_s=5)
    sender.close(deadline_s=5)

    for each in (text, collector.text()):
        assert "xpumeter_calls_total" in each
        assert "process_uptime_seconds" in each
        assert prometheus_tools.promtool("check", "metrics", stdin=each) == ""


def test_openmetrics_says_the_same(telemetry: Telemetry) -> None:
    """Read by a strict reader: the same samples, but for how the borders of buckets are written."""
    scrape = scraping(telemetry)
    scrape.update(snapshot(*ALL))
    openmetrics = page(scrape, "application/openmetrics-text;version=1.0.0")

    read = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(openmetrics)  # type: ignore[no-untyped-call]
        for sample in family.samples
    }
    plain = {
        (name, frozenset((k, v if k != "le" or v == "+Inf" else str(float(v))) for k, v in labels))
        for name, labels in keyed(parse(page(scrape)))
    }
    assert read.keys() == plain
    assert openmetrics.endswith("# EOF\n")
    assert not any(name.endswith("_created") for name, _ in read)
