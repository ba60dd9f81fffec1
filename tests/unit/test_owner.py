# SPDX-License-Identifier: Apache-2.0
"""Whose calls they are: names of the path, and what the runtime says of them."""

import pytest

from xpumeter.enrich.owner import is_unresolved, owner_of
from xpumeter.model.owners import ContainerRecord, Identity, Owner

UID, ID, SANDBOX = "b5ebee9a-740b-4b72-b4b4-200165f8c557", "c" * 64, "5" * 64
PATH = "/some/path"

RECORDS = {
    ID: ContainerRecord(ID, False, "main", "trainer-0", "ml", UID),
    SANDBOX: ContainerRecord(SANDBOX, True, None, "trainer-0", "ml", UID),
}
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

    assert owner_of(identity, RECORDS if known else {}) == owner


def test_the_runtime_knows_better_than_the_path() -> None:
    """A pod whose uid in the path is not the runtime's gets the runtime's."""
    assert owner_of(Identity(PATH, "0" * 32, ID), RECORDS) == FULL


def test_what_the_runtime_left_out_comes_from_the_path() -> None:
    """A record without labels does not hide the uid that the path has."""
    bare = {ID: ContainerRecord(ID, False, None, None, None, None)}

    assert owner_of(Identity(PATH, UID, ID), bare) == Owner(pod_uid=UID, container_id=ID)


def test_no_owner_is_nobody() -> None:
    """A sandbox without any name of a pod keeps its id: two of them must not be one owner."""
    bare = {SANDBOX: ContainerRecord(SANDBOX, True, None, None, None, None)}

    assert owner_of(Identity(PATH, None, SANDBOX), bare) == Owner(container_id=SANDBOX)


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
