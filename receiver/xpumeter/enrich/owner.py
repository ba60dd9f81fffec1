# SPDX-License-Identifier: Apache-2.0
"""Joins what a cgroup's names say with what the container runtime says."""

from collections.abc import Iterable

from xpumeter.model.owners import ContainerRecord, Identity, Owner


class Records:
    """What the container runtime said, to be looked up by what a path says."""

    def __init__(self, records: Iterable[ContainerRecord]) -> None:
        self._by_id: dict[str, ContainerRecord] = {}
        self._by_pod: dict[str, ContainerRecord] = {}
        for record in records:
            self._by_id[record.container_id] = record
            # Each of a pod's names the pod, if it has the names at all.
            if record.pod_uid is not None and record.pod_name is not None:
                self._by_pod.setdefault(record.pod_uid, record)

    def of(self, identity: Identity) -> ContainerRecord | None:
        """The container's record; without a container in the path, any of the pod's."""
        if identity.container_id is not None:
            return self._by_id.get(identity.container_id)
        return self._by_pod.get(identity.pod_uid) if identity.pod_uid is not None else None


def owner_of(identity: Identity, record: ContainerRecord | None) -> Owner:
    """Whose calls those of a cgroup are.

    Where path and runtime differ, the runtime wins: it knows static pods whose uid is any text, and
    containers below a path of another shape. A sandbox makes no calls of its own, so a call from
    one is that of a virtual machine or a user-space kernel: the pod's, and no container's. Without
    a record the keys remain: uid and id, no names.
    """
    if record is not None:
        pod_uid = record.pod_uid or identity.pod_uid
        # A sandbox of no pod is nobody's, but for its id.
        pod_only = identity.container_id is None or (record.sandbox and pod_uid is not None)
        return Owner(
            namespace=record.pod_namespace,
            pod=record.pod_name,
            pod_uid=pod_uid,
            container=None if pod_only else record.name,
            container_id=None if pod_only else record.container_id,
        )
    if identity.container_id is None and identity.pod_uid is None:
        return Owner(cgroup=identity.path)
    return Owner(pod_uid=identity.pod_uid, container_id=identity.container_id)


def caller_of(identity: Identity) -> Identity:
    """What of it `owner_of` reads: equal for all cgroups of one container."""
    if identity.container_id is None and identity.pod_uid is None:
        return Identity(identity.path)
    return Identity("", pod_uid=identity.pod_uid, container_id=identity.container_id)


def is_unresolved(owner: Owner) -> bool:
    """Whether the container runtime could still give this owner a name."""
    if owner.cgroup is not None:
        return False
    return owner.pod is None or (owner.container_id is not None and owner.container is None)
