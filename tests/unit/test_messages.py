# SPDX-License-Identifier: Apache-2.0
"""Snapshots become OTLP that a maintainer of OpenTelemetry would have written."""

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otlp_samples import (
    GPU,
    SECOND,
    SERVICE,
    TRAINER,
    attributes,
    is_marker,
    new,
    only,
    points,
    resources,
    series,
    snapshot,
)
from xpumeter.export.catalog import CALLS, SCHEMA_URL
from xpumeter.export.naming import error_type
from xpumeter.model.calls import ERROR_UNSEEN, Kind, Reason
from xpumeter.model.devices import DeviceId
from xpumeter.model.owners import Owner
from xpumeter.model.series import InFlight, Point, Series, Snapshot


def test_a_series_carries_pod_namespace_container_and_device() -> None:
    """Every attribute that is known is on the Resource; what is unknown is absent."""
    (key,) = resources(new().update(snapshot(series()), delivered=0))

    assert dict(key) == {
        "host.name": "h1",
        "k8s.namespace.name": "ml",
        "k8s.pod.name": "trainer-0",
        "k8s.pod.uid": "uid-1",
        "k8s.container.name": "main",
        "container.id": "c" * 64,
        "hw.id": "0000:03:00.0",
        "hw.type": "gpu",
        "hw.vendor": "Intel",
        "xpumeter.driver": "xe",
    }


def test_a_service_of_the_host_is_known_by_its_cgroup() -> None:
    """Outside pods the cgroup tells two services apart."""
    other = replace(SERVICE, cgroup="/system.slice/other.service")

    found = resources(new().update(snapshot(series(SERVICE), series(other)), delivered=0))

    assert [dict(key)["process.linux.cgroup"] for key in found] == [SERVICE.cgroup, other.cgroup]


def test_our_bytes_say_what_the_sdk_would_say() -> None:
    """One counter, by us and by opentelemetry-exporter-otlp's encoder: the same message.

    But for the schema URLs: the SDK's encoder leaves those of Resource and scope out.
    """
    ours = new().update(snapshot(series(error=12), at=5 * SECOND), delivered=0)
    ((key, message),) = resources(ours).items()
    theirs = encode_metrics(
        sdk.MetricsData(
            [
                sdk.ResourceMetrics(
                    Resource(dict(key)),
                    [
                        sdk.ScopeMetrics(
                            InstrumentationScope("xpumeter", "1.2.3", SCHEMA_URL),
                            [
                                sdk.Metric(
                                    CALLS.name,
                                    CALLS.description,
                                    CALLS.unit,
                                    sdk.Sum(
                                        [
                                            sdk.NumberDataPoint(
                                                {
                                                    "xpumeter.call.kind": "submit",
                                                    "error.type": "ENOMEM",
                                                },
                                                start_time_unix_nano=100,
                                                time_unix_nano=5 * SECOND,
                                                value=7,
                                            )
                                        ],
                                        sdk.AggregationTemporality.CUMULATIVE,
                                        is_monotonic=True,
                                    ),
                                )
                            ],
                            SCHEMA_URL,
                        )
                    ],
                    SCHEMA_URL,
                )
            ]
        )
    ).resource_metrics[0]
    theirs.schema_url = theirs.scope_metrics[0].schema_url = SCHEMA_URL

    assert message == theirs


def test_each_metric_has_its_type_and_unit() -> None:
    """Calls are whole numbers, time is seconds; totals rise for ever, an age has no start."""
    one = Series(
        TRAINER,
        GPU,
        calls={(Kind.WAIT, 0): Point(3, 100)},
        time_ns={Kind.WAIT: Point(2_500_000_000, 101)},
        interrupted={Kind.WAIT: Point(4, 102)},
        ended=False,
        in_flight={Kind.WAIT: InFlight(2, 1_500_000_000)},
    )
    seen = replace(snapshot(one), since_unix_ns=90)
    (resource,) = resources(new().update(seen, delivered=0)).values()

    metrics = resource.scope_metrics[0].metrics
    assert [(metric.name, metric.unit) for metric in metrics] == [
        ("xpumeter.calls", "{call}"),
        ("xpumeter.call.time", "s"),
        ("xpumeter.call.interrupted", "{call}"),
        ("xpumeter.call.active", "{call}"),
        ("xpumeter.call.oldest", "s"),
    ]
    *sums, gauge = metrics
    calls, time, interrupted, active = (metric.sum.data_points[0] for metric in sums)
    (oldest,) = gauge.gauge.data_points
    assert (calls.as_int, calls.start_time_unix_nano) == (3, 100)
    assert (time.as_double, time.start_time_unix_nano) == (2.5, 101)
    assert (interrupted.as_int, interrupted.start_time_unix_nano) == (4, 102)
    assert (active.as_int, active.start_time_unix_nano) == (2, 90)
    assert (oldest.as_double, oldest.start_time_unix_nano) == (1.5, 0)
    assert [metric.sum.is_monotonic for metric in sums] == [True, True, True, False]
    assert {metric.sum.aggregation_temporality for metric in sums} == {2}


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (12, "ENOMEM"),
        (35, "EDEADLK"),
        (95, "EOPNOTSUPP"),
        (524, "ENOTSUPP"),
        (ERROR_UNSEEN, "_OTHER"),
        (4095, "4095"),
    ],
)
def test_errors_have_the_names_of_the_kernel(error: int, name: str) -> None:
    """The errno's name; its number without one; `_OTHER` if nobody saw the return."""
    assert error_type(error) == name


def test_success_has_no_error_type() -> None:
    """Absent, not empty, not "0"."""
    point = only(new().update(snapshot(series()), delivered=0))

    assert attributes(point.attributes) == (("xpumeter.call.kind", "submit"),)


def test_what_has_no_owner_is_on_the_device_and_what_has_no_device_on_the_host() -> None:
    """Unattributed calls and the info of a device are on Resources without an owner."""
    shown = Snapshot(
        SECOND,
        SECOND,
        (),
        devices=(GPU,),
        unattributed={
            (GPU.device_id, Reason.UNKNOWN_CGROUP): Point(5, 100),
            (DeviceId("0000:99:00.0"), Reason.ROWS_FULL): Point(2, 100),
            (None, Reason.UNKNOWN_DEVICE): Point(6, 100),
        },
    )

    found = resources(new().update(shown, delivered=0))

    device, unlisted, host = found
    assert dict(device)["hw.id"] == GPU.device_id
    assert dict(device)["host.name"] == "h1"
    assert unlisted == (("host.name", "h1"), ("hw.id", "0000:99:00.0"))
    assert host == (("host.name", "h1"),)
    unknown = points(found[host])
    (lost,) = unknown.values()
    assert lost.as_int == 6
    on_device = points(found[device])
    info = on_device[
        "xpumeter.device.info",
        (("xpumeter.device.pci_id", "8086:e20b"), ("xpumeter.device.numa_node", 0)),
    ]
    assert info.as_int == 1
    assert on_device["xpumeter.call.unattributed", (("xpumeter.reason", "unknown_cgroup"),)]


def test_equal_resources_are_one_and_add_up() -> None:
    """Two series that nothing tells apart are never two Resources of one batch."""
    same = replace(GPU, pci_id="8086:0000")

    batch = new().update(
        snapshot(series(calls=7, start=100), series(device=same, calls=5, start=50)), delivered=0
    )

    assert (only(batch).as_int, only(batch).start_time_unix_nano) == (12, 50)


def test_unchanged_series_are_resent_with_a_new_time() -> None:
    """The value and the start stay, the time moves on."""
    messages = new()
    messages.update(snapshot(series(), at=1 * SECOND), delivered=0)

    point = only(messages.update(snapshot(series(), at=2 * SECOND), delivered=1))

    assert (point.as_int, point.start_time_unix_nano, point.time_unix_nano) == (7, 100, 2 * SECOND)


def test_a_new_beginning_moves_the_start() -> None:
    """A smaller value comes with its own start time."""
    messages = new()
    messages.update(snapshot(series(calls=7, start=100)), delivered=0)

    point = only(messages.update(snapshot(series(calls=2, start=900)), delivered=1))

    assert (point.as_int, point.start_time_unix_nano) == (2, 900)


def test_time_never_steps_back() -> None:
    """A clock that was set back holds the time: a Collector drops older points."""
    messages = new()
    messages.update(snapshot(series(), at=9 * SECOND), delivered=0)

    point = only(messages.update(snapshot(series(calls=8), at=1 * SECOND), delivered=1))

    assert (point.as_int, point.time_unix_nano) == (8, 9 * SECOND)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), max_size=6, unique=True), max_size=6))
def test_bytes_changed_in_place_are_those_built_anew(rounds: list[list[int]]) -> None:
    """Whatever came and went before, a batch has what a new agent would send, and markers."""
    kept = new()
    for number, owners in enumerate(rounds, start=1):
        now = snapshot(
            *(series(Owner(cgroup=f"/{name}"), calls=number) for name in owners),
            at=number * SECOND,
        )
        batch = kept.update(now, delivered=number - 1)
        live = {
            key: resource
            for key, resource in resources(batch).items()
            if not any(map(is_marker, points(resource).values()))
        }
        assert live == resources(new().update(now, delivered=0))


def test_batches_are_split_between_resources() -> None:
    """No request is above the limit, every Resource is whole, and none is missing."""
    many = [series(Owner(cgroup=f"/{number}")) for number in range(100)]

    batch = new(limit_bytes=2000).update(snapshot(*many), delivered=0)

    assert len(batch.parts) > 10
    assert all(len(part) <= 2000 for part in batch.parts)
    assert len(resources(batch)) == 100


def test_a_thousand_series_need_one_request() -> None:
    """The limit is 3 MiB: no host comes near it."""
    many = [series(Owner(cgroup=f"/{number}")) for number in range(1000)]

    assert len(new().update(snapshot(*many), delivered=0).parts) == 1


def test_building_messages_does_not_import_grpc() -> None:
    """What does not send does not pay for it: 16 MiB and 0.1 s of CPU."""
    check = "import sys, xpumeter.export.messages; sys.exit('grpc' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
