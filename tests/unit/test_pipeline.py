# SPDX-License-Identifier: Apache-2.0
"""From pins to a Collector in one process: real sockets, a made-up kernel."""

import logging
import os
import select
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics

from fake_collector import FakeCollector, serving
from otlp_samples import points_of
from unit.pinned import pin
from xpumeter import collection
from xpumeter import pipeline as pipeline_module
from xpumeter.config import Config, Counting, Exporters, Processors, Receivers
from xpumeter.destination import OtlpGrpc
from xpumeter.errors import HostError, RuntimeUnavailable
from xpumeter.filtering import Filter, Host, Kinds, Namespaces
from xpumeter.model.devices import Device, DeviceId
from xpumeter.model.kernel import (
    CgroupId,
    CgroupName,
    DeviceTotal,
    Incarnation,
    KernelDevice,
    OpenCall,
    Row,
)
from xpumeter.model.owners import ContainerRecord
from xpumeter.pipeline import Pipeline
from xpumeter.source import sysfs
from xpumeter.source.layout import Hierarchy
from xpumeter.source.pins import Pins

ID = "05b9a3305caeae2f1fa49fbc09456cd8bf5749209bf5a1a315078377f57665be"
UID = "b5ebee9a-740b-4b72-b4b4-200165f8c557"
ROOT, POD, CONTAINER, LOST = (CgroupId(i) for i in (1, 2, 3, 99))
GPU = Incarnation(1)
CGROUPS = (
    CgroupName(ROOT, CgroupId(0), "", False),
    CgroupName(POD, ROOT, f"pod{UID}", False),
    CgroupName(CONTAINER, POD, ID, False),
)
DEVICES = (KernelDevice(GPU, 226, 1, "virtio_gpu", "0000:00:10.0"),)
ALL = Filter()
SUBMIT, WAIT = 0x42, 0x48


class Shown:
    """What a Collector was sent: the newest value of each point, and every Resource."""

    def __init__(self, collector: FakeCollector) -> None:
        self.points: dict[tuple[str, ...], float] = {}
        self.resources: list[dict[str, str]] = []
        for request in collector.taken:
            for resource in request.resource_metrics:
                self._take(resource)

    def _take(self, resource: ResourceMetrics) -> None:
        names = {each.key: each.value.string_value for each in resource.resource.attributes}
        owner = names.get("container.id") or names.get("hw.id") or names.get("service.name", "")
        self.resources.append(names)
        for metric in resource.scope_metrics[0].metrics:
            for point in points_of(metric):
                values = sorted(each.value.string_value for each in point.attributes)
                self.points[owner, metric.name, *values] = point.as_int or point.as_double

    def of(self, owner: str) -> list[dict[str, str]]:
        """Resources of one container."""
        return [each for each in self.resources if each.get("container.id") == owner]


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    """A Collector's receiver on a free port."""
    with serving() as running:
        yield running


class Soon:
    """Stops the pipeline after a while."""

    def __init__(self, after_s: float) -> None:
        self._read, write = os.pipe()
        self._told = False
        threading.Timer(after_s, self._tell, (write,)).start()

    def _tell(self, write: int) -> None:
        self._told = True
        os.close(write)

    def __bool__(self) -> bool:
        return self._told

    def fileno(self) -> int:
        """As agent.Stop."""
        return self._read

    def wait(self, timeout_s: float) -> bool:
        """As agent.Stop."""
        select.select([self], [], [], max(0.0, timeout_s))
        return self._told


def configured(pins: Path, endpoint: str) -> Config:
    """The defaults, with these pins, this Collector and no container runtime."""
    return Config(
        receivers=Receivers(
            xpumeter=Counting(
                pins=pins,
                state=pins.parent / "state",
                runtime_endpoint="none",
                collection_interval_s=1,
            )
        ),
        exporters=Exporters(otlp_grpc=OtlpGrpc(endpoint=endpoint)),
    )


def shown_by(
    collector: FakeCollector,
    pins: Path,
    *,
    after_s: float = 0,
    left_out: Filter = ALL,
) -> Shown:
    """What the Collector has when a pipeline was stopped after a while."""
    config = replace(configured(pins, collector.endpoint), processors=Processors(left_out))
    with Pipeline(config, Pins(pins)) as pipeline:
        pipeline.run(Soon(after_s))
    return Shown(collector)


def test_every_call_arrives_under_its_owner_or_its_reason(
    tmp_path: Path, collector: FakeCollector
) -> None:
    """A container's calls, failures and interruptions, and a call of a cgroup nobody knows."""
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    folder = pin(
        tmp_path / "x",
        rows=[
            Row(CONTAINER, GPU, SUBMIT, 0, calls=7, time_ns=2_000_000_000, first_boot_ns=boot_ns),
            Row(CONTAINER, GPU, SUBMIT, 38, calls=2, time_ns=0, first_boot_ns=boot_ns),
            Row(CONTAINER, GPU, WAIT, 512, calls=3, time_ns=500_000_000, first_boot_ns=boot_ns),
            Row(LOST, GPU, SUBMIT, 0, calls=4, time_ns=0, first_boot_ns=boot_ns),
        ],
        cgroups=CGROUPS,
        devices=DEVICES,
        totals=[DeviceTotal(GPU, 16, 0, 0)],
    )

    shown = shown_by(collector, folder, after_s=1.5)

    calls = {key[1:]: value for key, value in shown.points.items() if key[0] == ID}
    assert calls == {
        ("xpumeter.calls", "submit"): 7,
        ("xpumeter.calls", "ENOSYS", "submit"): 2,
        ("xpumeter.call.time", "submit"): 2.0,
        ("xpumeter.call.time", "wait"): 0.5,
        ("xpumeter.call.interrupted", "wait"): 3,
        ("xpumeter.call.active", "submit"): 0,
        ("xpumeter.call.active", "wait"): 0,
    }
    assert shown.points["0000:00:10.0", "xpumeter.call.unattributed", "unknown_cgroup"] == 4
    assert {each["k8s.pod.uid"] for each in shown.of(ID)} == {UID}
    assert {each["xpumeter.driver"] for each in shown.of(ID)} == {"virtio_gpu"}


def test_what_is_counted_before_the_end_is_in_the_last_batch(
    tmp_path: Path, collector: FakeCollector
) -> None:
    """SIGTERM right after a call: the call still goes out."""
    row = Row(CONTAINER, GPU, SUBMIT, 0, calls=1, time_ns=0, first_boot_ns=1)
    folder = pin(tmp_path / "x", rows=[row], cgroups=CGROUPS, devices=DEVICES)

    shown = shown_by(collector, folder)

    assert shown.points[ID, "xpumeter.calls", "submit"] == 1


def test_a_row_that_the_kernel_let_go_is_exported_by_the_next_agent(
    tmp_path: Path, collector: FakeCollector, caplog: pytest.LogCaptureFixture
) -> None:
    """It was in the journal before it was deleted; its calls, its names and its start stay."""
    row = Row(CONTAINER, GPU, SUBMIT, 0, calls=4, time_ns=0, first_boot_ns=1, offered=True)
    gone = (*CGROUPS[:2], replace(CGROUPS[2], dead=True))
    totals = [DeviceTotal(GPU, 4, 0, 0)]
    folder = pin(tmp_path / "x", rows=[row], cgroups=gone, devices=DEVICES, totals=totals)
    first = shown_by(collector, folder)
    assert first.points[ID, "xpumeter.calls", "submit"] == 4
    collector.taken.clear()

    pin(folder, cgroups=CGROUPS[:2], devices=DEVICES, totals=totals)
    second = shown_by(collector, folder)

    assert second.points[ID, "xpumeter.calls", "submit"] == 4
    assert {each["k8s.pod.uid"] for each in second.of(ID)} == {UID}
    assert second.points["xpumeter", "xpumeter.call.missing"] == 0
    assert "calls_missing" not in caplog.text


def test_a_first_call_that_never_returns_is_there_with_its_names(
    tmp_path: Path, collector: FakeCollector
) -> None:
    """A hung device has no row: its caller and the device are known all the same, and the age."""
    begun_ns = time.monotonic_ns() - 90 * 10**9
    hung = OpenCall(CONTAINER, GPU, WAIT, start_ns=begun_ns, tid=7)
    later = OpenCall(CONTAINER, GPU, WAIT, start_ns=begun_ns + 10**9, tid=8)
    nobody = OpenCall(LOST, GPU, WAIT, start_ns=begun_ns, tid=9)
    folder = pin(tmp_path / "x", cgroups=CGROUPS, devices=DEVICES, open_calls=[hung, later, nobody])

    shown = shown_by(collector, folder)

    calls = {key[1:]: value for key, value in shown.points.items() if key[0] == ID}
    assert calls.keys() == {("xpumeter.call.active", "wait"), ("xpumeter.call.oldest", "wait")}
    assert calls["xpumeter.call.active", "wait"] == 2
    assert 90 <= calls["xpumeter.call.oldest", "wait"] < 120
    assert {each["k8s.pod.uid"] for each in shown.of(ID)} == {UID}
    assert {each["xpumeter.driver"] for each in shown.of(ID)} == {"virtio_gpu"}


def test_what_the_filter_leaves_out_stays_in_the_sum(
    tmp_path: Path, collector: FakeCollector
) -> None:
    """A kind, and whatever runs outside pods; of calls in flight too."""
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    rows = [
        Row(CONTAINER, GPU, SUBMIT, 0, calls=7, time_ns=9, first_boot_ns=boot_ns),
        Row(CONTAINER, GPU, WAIT, 0, calls=5, time_ns=9, first_boot_ns=boot_ns),
        Row(ROOT, GPU, SUBMIT, 0, calls=3, time_ns=9, first_boot_ns=boot_ns),
    ]
    open_calls = [OpenCall(each, GPU, WAIT, start_ns=1, tid=each) for each in (CONTAINER, ROOT)]
    folder = pin(tmp_path / "x", rows=rows, cgroups=CGROUPS, devices=DEVICES, open_calls=open_calls)
    left_out = Filter(kinds=Kinds(exclude=("wait",)), host=Host(enabled=False))

    shown = shown_by(collector, folder, left_out=left_out)

    calls = {key[1:]: value for key, value in shown.points.items() if key[0] == ID}
    assert calls.keys() == {
        ("xpumeter.calls", "submit"),
        ("xpumeter.call.time", "submit"),
        ("xpumeter.call.active", "submit"),
    }
    assert calls["xpumeter.calls", "submit"] == 7
    of_device = "0000:00:10.0", "xpumeter.call.unattributed"
    assert shown.points[*of_device, "filtered"] == 5
    assert shown.points[*of_device, "host_off"] == 3
    assert not [each for each in shown.resources if "process.linux.cgroup" in each]


class FakeRuntime:
    """Answers with one container from the second question on."""

    lists = 1
    calls = bad_records = 0

    def records(self, *_: object) -> dict[str, ContainerRecord]:
        """As Runtime."""
        self.calls += 1
        if self.calls == 1:
            raise RuntimeUnavailable("no answer")
        return {ID: ContainerRecord(ID, False, "main", "proxy", "kube-system", UID)}

    def close(self) -> None:
        """As Runtime."""


@pytest.mark.parametrize(("excluded", "shows"), [("kube-*", False), ("web", True)])
def test_a_pod_is_not_shown_before_its_namespace_is_known(
    tmp_path: Path,
    collector: FakeCollector,
    monkeypatch: pytest.MonkeyPatch,
    excluded: str,
    shows: bool,
) -> None:
    """The first export has no answer of the runtime yet; then the name decides."""
    runtime = FakeRuntime()
    monkeypatch.setattr(collection, "_runtime", lambda *_: runtime)
    row = Row(CONTAINER, GPU, SUBMIT, 0, calls=4, time_ns=0, first_boot_ns=1)
    folder = pin(tmp_path / "x", rows=[row], cgroups=CGROUPS, devices=DEVICES)
    left_out = Filter(namespaces=Namespaces(exclude=(excluded,)))

    shown = shown_by(collector, folder, after_s=2.5, left_out=left_out)

    assert runtime.calls >= 2
    assert {each.get("k8s.namespace.name") for each in shown.of(ID)} == (
        {"kube-system"} if shows else set()
    )
    of_device = "0000:00:10.0", "xpumeter.call.unattributed"
    # What has ended reads as 0.
    assert shown.points[*of_device, "unnamed"] == 0
    assert shown.points.get((*of_device, "filtered"), 0) == (0 if shows else 4)


def test_a_kernel_that_lost_a_call_is_reported(
    tmp_path: Path, collector: FakeCollector, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent checks its own sums: five returns and a row of four is a fault."""
    row = Row(CONTAINER, GPU, SUBMIT, 0, calls=4, time_ns=0, first_boot_ns=1)
    totals = [DeviceTotal(GPU, 5, 0, 0)]
    folder = pin(tmp_path / "x", rows=[row], cgroups=CGROUPS, devices=DEVICES, totals=totals)

    shown = shown_by(collector, folder)

    assert "event=calls_missing calls=1" in caplog.text
    assert shown.points["xpumeter", "xpumeter.call.missing"] == 1


@pytest.mark.parametrize("hierarchy", Hierarchy)
def test_who_is_named_depends_on_the_hierarchy(
    tmp_path: Path, collector: FakeCollector, hierarchy: Hierarchy
) -> None:
    """Never a wrong name: in the root of a v1 hierarchy is who was put nowhere, maybe a pod."""
    rows = [
        Row(CONTAINER, GPU, SUBMIT, 0, calls=4, time_ns=0, first_boot_ns=1),
        Row(ROOT, GPU, SUBMIT, 0, calls=3, time_ns=0, first_boot_ns=1),
    ]
    open_calls = [OpenCall(ROOT, GPU, SUBMIT, start_ns=1, tid=1)]
    folder = pin(
        tmp_path / "x",
        rows=rows,
        cgroups=CGROUPS,
        devices=DEVICES,
        open_calls=open_calls,
        hierarchy=hierarchy,
    )

    shown = shown_by(collector, folder)

    reason = "0000:00:10.0", "xpumeter.call.unattributed", "cgroup_v1"
    unnamed = {Hierarchy.V2: None, Hierarchy.V1: 7}.get(hierarchy, 3)
    assert shown.points.get(reason) == unnamed
    assert shown.points.get((ID, "xpumeter.calls", "submit")) == (
        None if hierarchy is Hierarchy.V1 else 4
    )
    roots = [each for each in shown.resources if each.get("process.linux.cgroup") == "/"]
    assert bool(roots) is (hierarchy is Hierarchy.V2)


def test_a_device_that_was_unplugged_keeps_its_names(
    tmp_path: Path, collector: FakeCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the next one is met sysfs has forgotten it; its series go on as they are."""
    card = Device(
        DeviceId("0000:00:10.0"), ((226, 1),), ("dri/card1",), "x", None, None, "Card", None
    )
    row = Row(CONTAINER, GPU, SUBMIT, 0, calls=4, time_ns=0, first_boot_ns=1)
    newer = KernelDevice(Incarnation(2), 226, 1, "qxl", "0000:00:14.0")
    folder = pin(tmp_path / "x", rows=[row], cgroups=CGROUPS, devices=DEVICES)
    monkeypatch.setattr(sysfs, "look", lambda _: frozenset({("card1", 1)}))
    monkeypatch.setattr(sysfs, "read_devices", lambda _, **__: (card,))

    with Pipeline(configured(folder, collector.endpoint), Pins(folder)) as pipeline:
        pipeline.run(Soon(0))
        monkeypatch.setattr(sysfs, "look", lambda _: frozenset({("drm", 0)}))
        monkeypatch.setattr(sysfs, "read_devices", lambda _, **__: ())
        rows = [row, row._replace(device=newer.incarnation)]
        pin(folder, rows=rows, cgroups=CGROUPS, devices=[*DEVICES, newer])
        pipeline.run(Soon(0))

    shown = Shown(collector)
    assert shown.points[ID, "xpumeter.calls", "submit"] == 4
    models = {each.get("hw.id"): each.get("hw.model") for each in shown.resources}
    assert models["0000:00:10.0"] == "Card"
    assert models["0000:00:14.0"] is None


def test_a_changed_driver_table_counts_from_its_load_on(
    tmp_path: Path, collector: FakeCollector
) -> None:
    """Three waits stay waits when the next agent's table calls them submissions; two more are."""
    table = tmp_path / "mine.yaml"
    table.write_text(
        "driver: virtio_gpu\nextends: virtio_gpu\ncalls:\n"
        "  - {name: DRM_IOCTL_VIRTGPU_WAIT, nr: 0x48, kind: submit}\n"
    )
    row = Row(CONTAINER, GPU, WAIT, 0, calls=3, time_ns=0, first_boot_ns=1)
    folder = pin(tmp_path / "x", rows=[row], cgroups=CGROUPS, devices=DEVICES)
    shown_by(collector, folder)
    config = configured(folder, collector.endpoint)
    mine = replace(config.receivers.xpumeter, driver_tables=(table,))
    changed = replace(config, receivers=replace(config.receivers, xpumeter=mine))

    for calls in (3, 5):
        again = [row._replace(calls=calls)]
        pin(folder, rows=again, cgroups=CGROUPS, devices=DEVICES)
        with Pipeline(changed, Pins(folder)) as pipeline:
            pipeline.run(Soon(0))
        shown = Shown(collector)
        assert shown.points[ID, "xpumeter.calls", "wait"] == 3
        assert shown.points.get((ID, "xpumeter.calls", "submit"), 0) == calls - 3


@pytest.mark.parametrize("refusal", [PermissionError(1, "open"), HostError("no libbpf")])
def test_without_a_ring_the_rows_are_read_all_the_same(
    tmp_path: Path,
    collector: FakeCollector,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    refusal: Exception,
) -> None:
    """bpf(2) refused, or no libbpf at all: a second later is all that it costs."""

    def refuse(_pins: Path) -> None:
        raise refusal

    monkeypatch.setattr(pipeline_module, "Ring", refuse)
    caplog.set_level(logging.INFO)
    row = Row(CONTAINER, GPU, SUBMIT, 0, calls=4, time_ns=0, first_boot_ns=1)
    folder = pin(tmp_path / "x", rows=[row], cgroups=CGROUPS, devices=DEVICES)

    shown = shown_by(collector, folder)

    assert shown.points[ID, "xpumeter.calls", "submit"] == 4
    assert "event=no_ring" in caplog.text
