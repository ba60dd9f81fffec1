# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes the real Collector: rates are right, and relabeling does as it says."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from exporting import Agent, exporting
from fake_collector import until
from lab.cache import Cache, cache_root
from lab.collector import Collector
from lab.errors import LabError
from lab.prometheus import Prometheus, prometheus
from lab.require import cannot_run
from lab.scraping import Scraping
from otlp_samples import SERVICE, TRAINER, new, series
from xpumeter.model.calls import Kind
from xpumeter.model.series import Point

pytestmark = pytest.mark.collector

FILES = Path(__file__).parents[2] / "config" / "prometheus"
SYSTEM = replace(TRAINER, namespace="kube-system", container_id="5" * 64)


@pytest.fixture(scope="module")
def program() -> Prometheus:
    try:
        return prometheus(Cache(cache_root()))
    except LabError as error:
        cannot_run("collector", error)


@pytest.fixture
def agent(collector: Collector) -> Iterator[Agent]:
    with exporting(collector, new(linger_s=0)) as one:
        yield one


def scraping(program: Prometheus, file: str, collector: Collector, folder: Path) -> Scraping:
    """Prometheus with a file of ours, each second, of this Collector."""
    config = yaml.safe_load((FILES / file).read_text())
    address = collector.prometheus_url.removeprefix("http://").removesuffix("/metrics")
    for job in config["scrape_configs"]:
        job["scrape_interval"] = "1s"
        job["static_configs"] = [{"targets": [address]}]
    (folder / file).write_text(yaml.safe_dump(config))
    return Scraping(program, folder / file, folder)


@pytest.mark.parametrize("file", ["scrape.yml", "relabel.yml"])
def test_promtool_takes_our_files(program: Prometheus, file: str) -> None:
    """Those of them that this Prometheus can know."""
    assert "SUCCESS" in program.promtool("check", "config", FILES / file)


def test_rates_are_right_over_a_restart_and_over_an_end(
    program: Prometheus, collector: Collector, agent: Agent, tmp_path: Path
) -> None:
    """50 calls a second before, while and after another agent takes over: no dip, no jump.

    And a container that has ended adds nothing more, nor does its end.
    """
    with scraping(program, "scrape.yml", collector, tmp_path) as prom:
        # Its first scrape comes some seconds after it says that it is ready.
        until(lambda: len(prom.query("up == 1")) == 1, seconds=30)
        begin = time.monotonic()

        def push(one: Agent, *, ended: bool = False) -> None:
            calls = 1000 + int(50 * (time.monotonic() - begin))
            ending = [series(SERVICE, calls=500, ended=ended)]
            one.push(series(TRAINER, calls=calls), *ending)
            time.sleep(0.5)

        for _ in range(16):
            push(agent)
        with exporting(collector, new(linger_s=0)) as successor:
            # The Collector takes no point that is older than the last.
            successor.at = agent.at
            for beat in range(16):
                push(successor, ended=beat > 4)
        of_trainer = '{k8s_pod_name="trainer-0"}[14s]'
        (rate,) = prom.query(f"rate(xpumeter_calls_total{of_trainer})")
        (resets,) = prom.query(f"resets(xpumeter_calls_total{of_trainer})")
        of_service = '{process_linux_cgroup="/system.slice/media.service"}'
        (increase,) = prom.query(f"increase(xpumeter_calls_total{of_service}[14s])")

        assert rate.value == pytest.approx(50, rel=0.1)
        assert resets.value == 0
        assert increase.value == 0
        assert prom.query(f"xpumeter_calls_total{of_service}") == ()


def test_relabeling_keeps_and_drops_what_it_says(
    program: Prometheus, collector: Collector, agent: Agent, tmp_path: Path
) -> None:
    """Each recipe of relabel.yml, by its job."""
    kinds = {(kind, 0): Point(2, 1) for kind in Kind}
    agent.push(
        replace(series(TRAINER), calls=kinds), series(SYSTEM, calls=3), series(SERVICE, calls=5)
    )
    with scraping(program, "relabel.yml", collector, tmp_path) as prom:
        until(lambda: len(prom.query("up == 1")) == 4, seconds=30)

        def shown(job: str) -> float:
            samples = prom.query(f'count(xpumeter_calls_total{{job="{job}"}})')
            return samples[0].value if samples else 0

        every = len(kinds) + 2
        assert shown("xpumeter-pods") == every - 1
        assert shown("xpumeter-without-system") == every - 1
        assert shown("xpumeter-submit-wait") == every - 3
        assert shown("xpumeter-fewer-labels") == every
        assert prom.query('xpumeter_calls_total{job="xpumeter-fewer-labels",hw_vendor!=""}') == ()
