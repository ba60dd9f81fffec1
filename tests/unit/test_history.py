# SPDX-License-Identifier: Apache-2.0
"""Random histories of a host, through all of naming and export: nothing is lost, ever.

The kernel and the Collector are models; everything between them is the real thing.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from otlp_samples import is_marker
from xpumeter.callers import Callers
from xpumeter.enrich.attribute import attribute, missing
from xpumeter.enrich.ledger import Ledger
from xpumeter.errors import RuntimeUnavailable
from xpumeter.export.messages import Messages
from xpumeter.model.calls import Kind
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.kernel import (
    CgroupId,
    CgroupName,
    DeviceTotal,
    Incarnation,
    Losses,
    Reading,
    Row,
)
from xpumeter.model.owners import ContainerRecord
from xpumeter.model.series import Attribution

SECOND = 10**9
OFFSET = 1_700_000_000 * SECOND
ROOT = CgroupId(1)
KINDS = {0x42: Kind.SUBMIT, 0x48: Kind.WAIT}
# The second incarnation is the first device, unplugged and back; nobody knows the third.
DEVICES = {
    Incarnation(1): DeviceId("0000:03:00.0"),
    Incarnation(2): DeviceId("0000:03:00.0"),
    Incarnation(4): DeviceId("0000:04:00.0"),
}
KNOWN = {
    each: KnownDevice(device, "xe", None, None, None, None, None, KINDS)
    for each, device in DEVICES.items()
}
COUNTED = {"xpumeter.calls", "xpumeter.call.interrupted", "xpumeter.call.unattributed"}
Key = tuple[bytes, str, bytes]


class Host(RuleBasedStateMachine):
    """A kernel that counts, containers that come and go, an agent that may die, a Collector."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000
        self.rows: dict[tuple[int, int, int, int], Row] = {}
        self.refused = 0
        self.cgroups = {ROOT: CgroupName(ROOT, CgroupId(0), "", False)}
        self.known: dict[str, ContainerRecord] = {}
        self.runtime_answers = True
        self.remembered: dict[str, ContainerRecord] = {}
        self.shown: dict[Key, tuple[int, int]] = {}
        self.arrived: dict[Key, int] = {}
        self.attribution: Attribution | None = None
        self.start_agent()

    # --- as Runtime and Memory -------------------------------------------------------------------

    lists = 1

    def records(self, _wanted: Collection[str]) -> dict[str, ContainerRecord]:
        if not self.runtime_answers:
            raise RuntimeUnavailable("no answer")
        return dict(self.known)

    def load(self) -> dict[str, ContainerRecord]:
        return dict(self.remembered)

    def save(self, records: Mapping[str, ContainerRecord]) -> None:
        self.remembered = dict(records)

    # --- what may happen -------------------------------------------------------------------------

    @rule()
    def start_agent(self) -> None:
        """Also after it was killed: nothing but the file of names is left of the one before."""
        self.callers = Callers(self, self, clock=lambda: self.now_s)
        self.ledger = Ledger()
        self.messages = Messages(version="0", host={"host.name": "h"}, linger_s=10**6)
        self.delivered = 0

    @rule(pod=st.integers(0, 3), known=st.booleans())
    def create_container(self, pod: int, known: bool) -> None:
        number = len(self.cgroups) + 1
        uid = f"00000000-0000-0000-0000-{pod:012d}"
        container_id = f"{number:064x}"
        slice_id = CgroupId(100_000 + pod)
        self.cgroups[slice_id] = CgroupName(slice_id, ROOT, f"pod{uid}", False)
        cgroup = CgroupId(number)
        self.cgroups[cgroup] = CgroupName(cgroup, slice_id, container_id, False)
        if known:
            self.known[container_id] = ContainerRecord(
                container_id, False, f"c{number}", f"p{pod}", "ml", uid
            )

    @rule(which=st.integers(0, 30))
    def forget_container(self, which: int) -> None:
        """Its pod is deleted: the runtime knows it no more, and its cgroup is gone."""
        ids = [each for each in self.cgroups if each < 100_000 and each != ROOT]
        if ids:
            cgroup = self.cgroups[ids[which % len(ids)]]
            self.known.pop(cgroup.name, None)
            self.cgroups[cgroup.cgroup_id] = replace(cgroup, dead=True)

    @rule(
        which=st.integers(0, 30),
        device=st.sampled_from([1, 2, 3, 4]),
        nr=st.sampled_from([0x42, 0x48, 0x10, 0x100]),
        error=st.sampled_from([0, 12, 515, 512, 0xFFFF]),
        calls=st.integers(1, 1000),
    )
    def call(self, which: int, device: int, nr: int, error: int, calls: int) -> None:
        """A container calls, or one whose cgroup the kernel had no room to name."""
        ids = [each for each in self.cgroups if each < 100_000] + [CgroupId(999_999)]
        cgroup = ids[which % len(ids)]
        key = (cgroup, device, nr, error)
        row = self.rows.get(key) or Row(
            cgroup, Incarnation(device), nr, error, 0, 0, self.now_s * SECOND
        )
        self.rows[key] = replace(row, calls=row.calls + calls, time_ns=row.time_ns + calls)

    @rule(calls=st.integers(1, 9))
    def call_without_room(self, calls: int) -> None:
        self.refused += calls

    @rule(answers=st.booleans())
    def change_runtime(self, answers: bool) -> None:
        self.runtime_answers = answers

    @rule(step_s=st.integers(1, 100), arrives=st.booleans(), clock=st.integers(-99, 99))
    def period(self, step_s: int, arrives: bool, clock: int) -> None:
        """The agent reads, names and sends; the host's clock is what it is."""
        self.now_s += step_s
        reading = self.read()
        self.callers.update({row.cgroup_id for row in reading.rows}, self.cgroups)
        self.attribution = attribute(reading, KNOWN, self.callers.owners, self.callers.dead)
        boot_ns = self.now_s * SECOND
        snapshot = self.ledger.update(
            self.attribution, unix_ns=boot_ns + OFFSET + clock, boot_to_unix_ns=OFFSET + clock
        )
        batch = self.messages.update(snapshot, delivered=self.delivered)
        if arrives:
            self.delivered = batch.seq
            self.take(batch.parts)

    # --- the models ------------------------------------------------------------------------------

    def read(self) -> Reading:
        totals = dict.fromkeys((1, 2, 3, 4), 0)
        for row in self.rows.values():
            totals[row.device] += row.calls
        totals[1] += self.refused
        every = tuple(
            DeviceTotal(Incarnation(device), returns, self.refused if device == 1 else 0, 0)
            for device, returns in totals.items()
        )
        return Reading(every, tuple(self.rows.values()), every, Losses())

    def take(self, parts: tuple[bytes, ...]) -> None:
        """As a Collector: the newest value of each series; a marker ends one."""
        self.arrived = {}
        for part in parts:
            for resource in ExportMetricsServiceRequest.FromString(part).resource_metrics:
                for metric in resource.scope_metrics[0].metrics:
                    for point in metric.sum.data_points:
                        attributes = b"".join(each.SerializeToString() for each in point.attributes)
                        key = (resource.resource.SerializeToString(), metric.name, attributes)
                        if is_marker(point):
                            self.shown.pop(key, None)
                            continue
                        value, start = int(point.as_int), point.start_time_unix_nano
                        before, began = self.shown.get(key, (0, start))
                        assert key not in self.arrived, "two points of one series in a batch"
                        # A start that NTP moved a little is no new beginning.
                        fresh = start > began + SECOND
                        assert value >= before or fresh, "a series stepped back"
                        self.shown[key] = (value, start)
                        self.arrived[key] = value

    @invariant()
    def every_call_is_in_one_place(self) -> None:
        """What the agent makes of a reading adds up to what the kernel counted."""
        reading = self.read()
        assert missing(reading) == 0
        result = attribute(reading, KNOWN, self.callers.owners, self.callers.dead)
        placed = sum(tally.value for tally in result.unattributed.values())
        for usage in result.usages.values():
            placed += sum(tally.value for tally in usage.calls.values())
            placed += sum(tally.value for tally in usage.interrupted.values())
        assert placed == sum(row.calls for row in self.rows.values()) + self.refused

    def teardown(self) -> None:
        """When all is well again for a few periods, the Collector shows every call once."""
        self.runtime_answers = True
        for _ in range(4):
            self.period(60, True, 0)
        live = sum(value for key, value in self.arrived.items() if key[1] in COUNTED)
        assert live == sum(row.calls for row in self.rows.values()) + self.refused


TestHistories = Host.TestCase
TestHistories.settings = settings(stateful_step_count=40, deadline=None)


def test_the_collector_of_the_model_notices_a_step_back() -> None:
    """The model is no rubber stamp."""
    host = Host()
    host.create_container(pod=0, known=True)
    host.call(which=1, device=1, nr=0x42, error=0, calls=5)
    host.period(10, True, 0)
    host.rows = {key: replace(row, calls=4) for key, row in host.rows.items()}
    host.start_agent()

    with pytest.raises(AssertionError, match="a series stepped back"):
        host.period(10, True, 0)
