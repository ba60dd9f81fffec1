# SPDX-License-Identifier: Apache-2.0
"""Whose calls they are: names of the path, and what the runtime says of them."""

import pytest

from xpumeter.enrich.owner import Records, is_unresolved, owner_of
from xpumeter.model.owners import ContainerRecord, Identity, Owner

UID, ID, SANDBOX = "b5ebee9a-740b-4b72-b4b4-200165f8c557", "c" * 64, "5" * 64
PATH = "/some/path"

RECORDS = (
    ContainerRecord(ID, False, "main", "trainer-0", "ml", UID),
    ContainerRecord(SANDBOX, True, None, "trainer-0", "ml", UID),
)


def join(identity: Identity, *records: ContainerRecord) -> Owner:
    """Path and runtime, as the agent joins them."""
    return owner_of(identity, Records(records).of(identity))


FULL = Owner("ml", "trainer-0", UID, "main", ID)
POD = Owner("ml", "trainer-0", UID)


@pytest.mark.parametrize(
    ("pod_uid", "container_id", "known", "owner"),
    [
        pytest.param(UID, ID, True, FULL, id="container of a pod"),
        pytest.param(UID, SANDBOX, True, POD, id="sandbox of a pod"),
        pytest.param(UID, ID, False, Owner(pod_uid=UID, container_id=ID), id="not in the runtime"),
        pytest.param(UID, None, True, POD, id="pod only"),
        pytest.param(UID, None, False, Owner(pod_uid=UID), id="pod only, not in the runtime"),
        pytest.param(None, ID, True, FULL, id="container that the path puts in no pod"),
        pytest.param(None, SANDBOX, True, POD, id="sandbox that the path puts in no pod"),
        pytest.param(None, ID, False, Owner(container_id=ID), id="container of another engine"),
        pytest.param(None, None, True, Owner(cgroup=PATH), id="service of the host"),
    ],
)
def test_each_row_of_the_join(
    pod_uid: str | None, container_id: str | None, known: bool, owner: Owner
) -> None:
    """Path and runtime together give one owner, with the names that are known and no others."""
    identity = Identity(PATH, pod_uid, container_id)

    assert join(identity, *(RECORDS if known else ())) == owner


def test_the_runtime_knows_better_than_the_path() -> None:
    """A pod whose uid in the path is not the runtime's gets the runtime's."""
    assert join(Identity(PATH, "0" * 32, ID), *RECORDS) == FULL


def test_any_container_of_a_pod_names_the_pod() -> None:
    """Calls in the pod's own cgroup (gVisor) are the pod's, by whatever record has its names."""
    bare = ContainerRecord("b" * 64, False, None, None, None, UID)

    assert join(Identity(PATH, UID), bare, RECORDS[0]) == POD


def test_two_pods_of_one_name_stay_two() -> None:
    """A StatefulSet's pod that was deleted and made again has another uid."""
    again = ContainerRecord("d" * 64, False, "main", "trainer-0", "ml", "another-uid")
    owners = [
        join(Identity(PATH, None, each), *RECORDS, again) for each in (ID, again.container_id)
    ]

    assert owners == [FULL, Owner("ml", "trainer-0", "another-uid", "main", "d" * 64)]


def test_a_restarted_container_is_another_owner() -> None:
    """The same name in the same pod; a new id."""
    again = ContainerRecord("d" * 64, False, "main", "trainer-0", "ml", UID)

    assert join(Identity(PATH, UID, "d" * 64), *RECORDS, again) != FULL


def test_a_static_pod_has_the_uid_of_its_kubelet() -> None:
    """The hash of its manifest, which path and runtime have; or the manifest's own, any text."""
    of_manifest = "437ce1cc3a060dda3304ccfd8cfe483a"
    hashed = ContainerRecord(ID, False, "etcd", "etcd-node-a", "kube-system", of_manifest)
    named = ContainerRecord(ID, False, "etcd", "etcd-node-a", "kube-system", "etcd-of-node-a")

    assert join(Identity(PATH, of_manifest, ID), hashed).pod_uid == of_manifest
    assert join(Identity(PATH, None, ID), named).pod_uid == "etcd-of-node-a"


def test_what_the_runtime_left_out_comes_from_the_path() -> None:
    """A record without labels does not hide the uid that the path has."""
    bare = ContainerRecord(ID, False, None, None, None, None)

    assert join(Identity(PATH, UID, ID), bare) == Owner(pod_uid=UID, container_id=ID)


def test_no_owner_is_nobody() -> None:
    """A sandbox without any name of a pod keeps its id: two of them must not be one owner."""
    bare = ContainerRecord(SANDBOX, True, None, None, None, None)

    assert join(Identity(PATH, None, SANDBOX), bare) == Owner(container_id=SANDBOX)


@pytest.mark.parametrize(
    ("owner", "unresolved"),
    [
        (FULL, False),
        (POD, False),
        (Owner(cgroup=PATH), False),
        (Owner(pod_uid=UID), True),
        (Owner(pod_uid=UID, container_id=ID), True),
        (Owner("ml", "trainer-0", UID, None, ID), True),
        (Owner(container_id=ID), True),
    ],
)
def test_unresolved_is_who_could_still_get_a_name(owner: Owner, unresolved: bool) -> None:
    """Pods and containers without names wait for the runtime; services of the host do not."""
    assert is_unresolved(owner) is unresolved
