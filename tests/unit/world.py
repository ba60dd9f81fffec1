# SPDX-License-Identifier: Apache-2.0
"""A host as a model: containers and services that come, call and go, and what they did in truth."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from unit.fake_kernel import ROOT, FakeKernel, Key
from xpumeter.errors import RuntimeUnavailable
from xpumeter.model.calls import Kind
from xpumeter.model.devices import DeviceId, KnownDevice
from xpumeter.model.kernel import CgroupId, CgroupName, Incarnation
from xpumeter.model.owners import ContainerRecord

KINDS = {0x42: Kind.SUBMIT, 0x48: Kind.WAIT}
SLOTS = (DeviceId("0000:03:00.0"), DeviceId("0000:04:00.0"))
UNKNOWN = 99
"""A device that nobody knows."""
PODS, SERVICES = 100_000, 900_000
"""Where cgroup ids of them begin; those of containers are smaller."""


class World:
    """Also the container runtime.

    Attributes:
        now_s: On the boot clock.
        made: Calls by owner (container id, pod uid or path; empty: nobody's) and device.
        known: What the runtime answers, if it `answers`.
    """

    def __init__(self) -> None:
        self.now_s = 1000
        self.containers = 0
        self.known: dict[str, ContainerRecord] = {}
        self.answers = True
        self.attach()

    def attach(self) -> None:
        """Counting begins anew: numbers of cgroups and devices come again, for others."""
        self.kernel = FakeKernel()
        self.devices: dict[Incarnation, KnownDevice] = {}
        self.made: Counter[tuple[str, str]] = Counter()
        self.plug(0)

    lists = 1

    def records(self, _wanted: Collection[str]) -> dict[str, ContainerRecord]:
        """As Runtime."""
        if not self.answers:
            raise RuntimeUnavailable("no answer")
        return dict(self.known)

    def plug(self, slot: int) -> None:
        """A device, or the same one again, with the next number."""
        number = Incarnation(len(self.devices) + 1)
        if number < 6:
            self.devices[number] = KnownDevice(
                SLOTS[slot], "xe", None, None, None, None, None, KINDS
            )

    def create_container(self, pod: int, *, known: bool) -> tuple[CgroupId, CgroupId]:
        """Its cgroup, and one that it has made inside."""
        self.containers += 1
        uid = f"00000000-0000-0000-0000-{pod:012d}"
        container_id = f"{self.containers:064x}"
        pod_id = CgroupId(PODS + pod)
        cgroup = self._next_id(below=PODS)
        inner = CgroupId(cgroup + 1)
        self.kernel.names |= {
            pod_id: CgroupName(pod_id, ROOT, f"pod{uid}", False),
            cgroup: CgroupName(cgroup, pod_id, container_id, False),
            inner: CgroupName(inner, cgroup, "inner", False),
        }
        if known:
            self.known[container_id] = ContainerRecord(
                container_id, False, f"c{self.containers}", f"p{pod}", "ml", uid
            )
        return cgroup, inner

    def start_service(self, which: int) -> None:
        """The same path each time, in a new cgroup."""
        number, name = self._next_id(), f"{which}.service"
        if all(each.dead or each.name != name for each in self.kernel.names.values()):
            self.kernel.names[number] = CgroupName(number, ROOT, name, False)

    def _next_id(self, *, below: int = 2**64) -> CgroupId:
        first = SERVICES if below > SERVICES else ROOT
        return CgroupId(max(first, *(each for each in self.kernel.names if each < below)) + 1)

    def alive(self) -> list[CgroupId]:
        """Cgroups that can be removed."""
        return [each for each, name in self.kernel.names.items() if not name.dead and each != ROOT]

    def remove(self, cgroup: CgroupId) -> None:
        """With all below it; of a container that is gone the runtime knows nothing any more."""
        names = self.kernel.names
        gone = {cgroup}
        while more := {each for each, name in names.items() if name.parent in gone} - gone:
            gone |= more
        for each in gone:
            names[each] = replace(names[each], dead=True)
            self.known.pop(names[each].name, None)

    def call(self, key: Key, calls: int, *, counted: bool = True, who: str | None = None) -> None:
        """Calls, by `who` if the cgroup's name may be gone by now."""
        self.kernel.call(key, calls, boot_ns=self.now_s * 10**9, counted=counted)
        self.made[self.who(key[0]) if who is None else who, self.device_id(key[1])] += calls

    def device_id(self, number: int) -> str:
        """Empty for one that nobody knows."""
        device = self.devices.get(Incarnation(number))
        return device.device_id if device else ""

    def is_dead(self, cgroup: int) -> bool:
        """Whether it was removed, as far as the kernel remembers."""
        name = self.kernel.names.get(CgroupId(cgroup))
        return name is not None and name.dead

    def who(self, cgroup: int) -> str:
        """Container id, pod uid or path; what a Resource says of its owner."""
        name = self.kernel.names.get(CgroupId(cgroup))
        if name is None:
            return ""
        if cgroup > SERVICES:
            return f"/{name.name}"
        if cgroup >= PODS:
            return name.name.removeprefix("pod")
        return name.name if name.parent >= PODS else self.who(name.parent)

    def counted(self) -> Counter[str]:
        """Calls by device, in rows or not."""
        counted: Counter[str] = Counter()
        for (_, device_id), calls in self.made.items():
            counted[device_id] += calls
        for number, calls in self.kernel.refused.items():
            counted[self.device_id(number)] += calls
        return counted
