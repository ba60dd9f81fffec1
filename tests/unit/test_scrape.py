# SPDX-License-Identifier: Apache-2.0
"""The page for a scrape; tests/collector holds it against a real Collector's."""

import gzip
import threading

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from lab.collector import parse
from otlp_samples import HOST, SECOND, SERVICE, TRAINER, series, snapshot
from xpumeter.export import catalog, own
from xpumeter.export.prometheus import OPENMETRICS, TEXT, Form, Scrape, family_name, negotiate

PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def scraping(linger_s: float = 60, own: ExportMetricsServiceRequest | None = None) -> Scrape:
    return Scrape(
        version="1.2.3", host=HOST, linger_s=linger_s, own=None if own is None else lambda: own
    )


def calls(scrape: Scrape) -> dict[str, float]:
    """Calls by container or service."""
    return {
        each.labels.get("k8s_pod_name") or each.labels["process_linux_cgroup"]: each.value
        for each in parse(scrape.answer({}).body.decode())
        if each.name == "xpumeter_calls_total"
    }


def test_before_the_first_collection_the_page_is_empty() -> None:
    """What was not counted yet is absent; the page is there."""
    assert scraping().answer({}).body == b""
    assert scraping().answer({"accept": PROMETHEUS_3}).body == b"# EOF\n"


def test_a_series_that_ended_is_shown_for_its_linger_and_then_gone() -> None:
    """Its last value is there for a scrape; nobody has to have come for it to go."""
    scrape = scraping(linger_s=60)

    scrape.update(snapshot(series(TRAINER, calls=7), series(SERVICE, calls=1), at=SECOND))
    for at_s, shown in ((10, 9), (40, 9), (69, 9), (70, None), (100, None)):
        ended = series(TRAINER, calls=9, ended=True)
        scrape.update(snapshot(ended, series(SERVICE, calls=1), at=at_s * SECOND))
        assert calls(scrape).get("trainer-0") == shown, at_s
        assert calls(scrape)["/system.slice/media.service"] == 1


def test_a_new_snapshot_is_a_new_page() -> None:
    """Until then the text is made once, however often it is asked for."""
    made: list[None] = []

    def own_metrics() -> ExportMetricsServiceRequest:
        made.append(None)
        return ExportMetricsServiceRequest()

    scrape = Scrape(version="1", host=HOST, linger_s=60, own=own_metrics)
    scrape.update(snapshot(series(calls=1), at=SECOND))
    for _ in range(3):
        assert calls(scrape) == {"trainer-0": 1}
    assert len(made) == 1

    scrape.update(snapshot(series(calls=2), at=2 * SECOND))
    assert calls(scrape) == {"trainer-0": 2}
    assert len(made) == 2


def test_a_page_that_is_being_made_does_not_hold_the_loop_up() -> None:
    """The loop hands over the next snapshot meanwhile, and the page is of one moment."""
    making, go = threading.Event(), threading.Event()

    def own_metrics() -> ExportMetricsServiceRequest:
        making.set()
        go.wait(10)
        return ExportMetricsServiceRequest()

    scrape = Scrape(version="1", host=HOST, linger_s=60, own=own_metrics)
    scrape.update(snapshot(series(calls=1), at=SECOND))
    seen: list[dict[str, float]] = []
    asking = threading.Thread(target=lambda: seen.append(calls(scrape)))
    asking.start()
    assert making.wait(10)

    scrape.update(snapshot(series(calls=2), at=2 * SECOND))  # returns: nobody let go yet
    go.set()
    asking.join()

    assert seen == [{"trainer-0": 1}]
    assert calls(scrape) == {"trainer-0": 2}


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain", TEXT),
        ("text/html, application/json", TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", OPENMETRICS),
        ("application/openmetrics-text; version=0.0.1, text/plain; q=0.5", TEXT),
        ("text/plain;q=0.9,application/openmetrics-text;q=0.8", TEXT),
        ("application/openmetrics-text;q=much, text/plain;q=0.1", TEXT),
        ("application/openmetrics-text;version=1.0.0\r\nX: y", TEXT),
        (PROMETHEUS_3, OPENMETRICS),
        (";;=,q=;,,", TEXT),
    ],
)
def test_the_request_says_which_form_it_would_rather_have(accept: str, form: Form) -> None:
    """Text unless OpenMetrics is wanted more; nonsense is passed over."""
    assert negotiate(accept) is form


def test_a_page_is_packed_for_who_can_unpack_it() -> None:
    """gzip, and the same text in it."""
    scrape = scraping()
    scrape.update(snapshot(series()))

    packed = scrape.answer({"accept-encoding": "deflate, gzip"})

    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == scrape.answer({}).body


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (catalog.CALLS, "xpumeter_calls"),
        (catalog.CALL_TIME, "xpumeter_call_time_seconds"),
        (catalog.DEVICE_INFO, "xpumeter_device_info"),
        (own.MEMORY_USAGE, "process_memory_usage_bytes"),
        (own.ROW_USAGE, "xpumeter_row_usage"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_names_are_those_of_the_collector(metric: catalog.Metric, name: str) -> None:
    """Dots become underscores, a unit is written out, a thing in braces is left out."""
    assert family_name(metric.name, metric.unit) == name
