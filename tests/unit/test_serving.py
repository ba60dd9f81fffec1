# SPDX-License-Identifier: Apache-2.0
"""An agent without a Collector: counted, named and shown to whoever asks."""

import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from fake_collector import until
from lab.collector import parse
from unit.pinned import pin
from unit.test_pipeline import CGROUPS, CONTAINER, DEVICES, GPU, ID, SUBMIT, Soon
from xpumeter import config
from xpumeter.config import Config, Exporters, Extensions, HealthCheck, MetricsLevel
from xpumeter.errors import HostError, NotAttached
from xpumeter.model.kernel import DeviceTotal, Row
from xpumeter.pipeline import Pipeline
from xpumeter.source.pins import Pins

EDGE = Path(__file__).parents[2] / "config/edge.yaml"
ROW = Row(CONTAINER, GPU, SUBMIT, 0, calls=7, time_ns=2_000_000_000, first_boot_ns=1)


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port: int = listener.getsockname()[1]
        return port


def get(port: int, path: str) -> tuple[int, str]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with closing(error):
            return error.code, error.read().decode()
    except urllib.error.URLError:  # nobody listens
        return 0, ""


def edge(pins: Path, port: int) -> Config:
    """The shipped file for small boards, with these pins, on this port of the loopback."""
    shipped = config.load(EDGE, {})
    at = ("127.0.0.1", port)
    return replace(
        shipped,
        receivers=config.Receivers(
            replace(
                shipped.receiver, pins=pins, state=pins.parent / "state", runtime_endpoint="none"
            )
        ),
        exporters=Exporters(None, None, config.Prometheus(at)),
        extensions=Extensions(HealthCheck(at)),
    )


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    return pin(
        tmp_path / "x",
        rows=[ROW],
        cgroups=CGROUPS,
        devices=DEVICES,
        totals=[DeviceTotal(GPU, 7, 0, 0)],
    )


@contextmanager
def running(settings: Config, after_s: float) -> Iterator[Callable[[], BaseException | None]]:
    """A pipeline in a thread; what is given tells how it ended."""
    ended: list[BaseException] = []

    def run() -> None:
        try:
            with Pipeline(settings, Pins(settings.receiver.pins)) as pipeline:
                pipeline.run(Soon(after_s))
        except NotAttached as gone:
            ended.append(gone)

    thread = Thread(target=run)
    thread.start()
    yield lambda: ended[0] if ended else None
    thread.join()


def test_the_shipped_file_for_small_boards_shows_the_counts(pins: Path) -> None:
    """No Collector anywhere: the page has the container's calls and the agent's own metrics."""
    port = free_port()
    with running(edge(pins, port), after_s=2.5):
        until(lambda: get(port, "/readyz")[0] == 200)
        samples = parse(get(port, "/metrics")[1])
        health = get(port, "/healthz")

    (calls,) = (each for each in samples if each.name == "xpumeter_calls_total")
    assert (calls.value, calls.labels["container_id"]) == (7, ID)
    own = {each.name: each.value for each in samples if "container_id" not in each.labels}
    assert own["xpumeter_row_usage"] == 1
    assert own["xpumeter_call_missing"] == 0
    assert own["process_memory_usage_bytes"] > 1 << 20
    assert not [name for name in own if name.startswith(("xpumeter_export", "otel_sdk"))]
    assert health == (200, "OK\n")


def test_it_is_not_ready_before_it_has_collected(pins: Path) -> None:
    """The first second: alive, not ready, nothing on the page but what is known."""
    port = free_port()
    with Pipeline(edge(pins, port), Pins(pins)) as pipeline:
        assert get(port, "/healthz")[0] == 200
        assert get(port, "/readyz") == (503, "nothing was collected yet\n")
        assert get(port, "/metrics") == (200, "")
        pipeline.run(Soon(0))
        assert get(port, "/readyz")[0] == 200


def test_a_probe_learns_that_the_counts_are_gone(pins: Path) -> None:
    """Somebody detached: the probe fails at once, the agent ends at its next look."""
    port = free_port()
    with Pipeline(edge(pins, port), Pins(pins)) as pipeline:
        pipeline.run(Soon(0))
        (pins / "meta").rename(pins / "gone")
        status, text = get(port, "/healthz")
        (pins / "gone").rename(pins / "meta")

    assert (status, text) == (503, f"nothing is attached at {pins}\n")


def test_two_addresses_are_two_listeners(pins: Path) -> None:
    """Health on one, counts on the other, and neither has the other's pages."""
    port, other = free_port(), free_port()
    settings = replace(edge(pins, port), extensions=Extensions(HealthCheck(("127.0.0.1", other))))
    with Pipeline(settings, Pins(pins)):
        assert [get(port, path)[0] for path in ("/metrics", "/healthz")] == [200, 404]
        assert [get(other, path)[0] for path in ("/metrics", "/healthz")] == [404, 200]


def test_without_metrics_of_its_own_the_page_has_the_counts_alone(pins: Path) -> None:
    """`service.telemetry.metrics.level: none`."""
    port = free_port()
    telemetry = config.Telemetry(metrics=config.Metrics(MetricsLevel.NONE))
    settings = replace(edge(pins, port), service=config.Service(telemetry))
    with Pipeline(settings, Pins(pins)) as pipeline:
        pipeline.run(Soon(0))
        names = {each.name for each in parse(get(port, "/metrics")[1])}

    assert names == {
        "xpumeter_calls_total",
        "xpumeter_call_time_seconds_total",
        "xpumeter_call_active",
        "xpumeter_device_info",
    }


def test_a_port_in_use_ends_the_agent_before_anything_runs(pins: Path) -> None:
    """One error that names the setting; nothing is left listening."""
    port, other = free_port(), free_port()
    settings = replace(edge(pins, port), extensions=Extensions(HealthCheck(("127.0.0.1", other))))
    with (
        closing(socket.create_server(("127.0.0.1", port))),
        pytest.raises(HostError, match=r"^exporters\.prometheus\.endpoint: nobody can listen on"),
    ):
        Pipeline(settings, Pins(pins))
    with closing(socket.create_server(("127.0.0.1", other))):
        pass


def test_who_is_not_scraped_does_not_pay_for_it() -> None:
    """The pipeline is imported without the library that makes the text."""
    program = "import sys, xpumeter.pipeline; print('prometheus_client' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert done.stdout == b"False\n"
