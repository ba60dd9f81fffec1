# SPDX-License-Identifier: Apache-2.0
"""A pod's container and a service, as the kernel names them; a runtime that knows what it may."""

from collections.abc import Collection

from xpumeter.errors import RuntimeUnavailable
from xpumeter.model.kernel import CgroupId, CgroupName
from xpumeter.model.owners import ContainerRecord, Owner

ID = "05b9a3305caeae2f1fa49fbc09456cd8bf5749209bf5a1a315078377f57665be"
UID = "b5ebee9a-740b-4b72-b4b4-200165f8c557"
ROOT, PODS, POD, CONTAINER, SERVICE = (CgroupId(i) for i in (1, 2, 3, 4, 5))
NAMES = {
    name.cgroup_id: name
    for name in (
        CgroupName(ROOT, CgroupId(0), "", False),
        CgroupName(PODS, ROOT, "kubepods", False),
        CgroupName(POD, PODS, f"pod{UID}", False),
        CgroupName(CONTAINER, POD, ID, False),
        CgroupName(SERVICE, ROOT, "media.service", False),
    )
}
RECORD = ContainerRecord(ID, False, "main", "trainer-0", "ml", UID)
NAMED = Owner("ml", "trainer-0", UID, "main", ID)
UNNAMED = Owner(pod_uid=UID, container_id=ID)


class Clock:
    """Seconds, as the test sets them."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """As time.monotonic."""
        return self.now_s


class FakeRuntime:
    """Answers with `known`, or not at all while that is None; counts how often it was asked."""

    def __init__(self, *known: ContainerRecord) -> None:
        self.known: tuple[ContainerRecord, ...] | None = known
        self.asked = 0
        self.lists = 0
        self.listed = 0

    def records(self, wanted: Collection[str]) -> dict[str, ContainerRecord]:
        """As Runtime: a second list when the first does not have all."""
        self.asked += 1
        found = {each.container_id for each in self.known or ()}
        missing = self.known is not None and not found.issuperset(wanted)
        self.lists = 2 if missing else 1
        self.listed += self.lists
        if self.known is None:
            raise RuntimeUnavailable("no answer")
        return {record.container_id: record for record in self.known}
