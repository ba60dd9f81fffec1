# SPDX-License-Identifier: Apache-2.0
"""Joins what a cgroup's names say with what the container runtime says."""

from collections.abc import Mapping

from xpumeter.model.owners import ContainerRecord, Identity, Owner


def owner_of(identity: Identity, records: Mapping[str, ContainerRecord]) -> Owner:
    """Whose calls those of a cgroup are.

    `records` are containers and sandboxes by container id. Where path and runtime differ, the
    runtime wins: it knows static pods, and containers below a path of another shape. A sandbox
    makes no calls of its own, so a call from one is that of a virtual machine or a user-space
    kernel: the pod's, and no container's. Without a record the keys remain: uid and id, no names.
    """
    if identity.container_id is not None:
        record = records.get(identity.container_id)
    else:
        record = _sandbox_of(identity.pod_uid, records)

    if record is not None:
        pod_uid = record.pod_uid or identity.pod_uid
        # A sandbox of no pod is nobody's, but for its id.
        pod_only = record.sandbox and pod_uid is not None
        return Owner(
            namespace=record.pod_namespace,
            pod=record.pod_name,
            pod_uid=pod_uid,
            container=record.name,
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


def _sandbox_of(
    pod_uid: str | None, records: Mapping[str, ContainerRecord]
) -> ContainerRecord | None:
    if pod_uid is None:
        return None
    sandboxes = (each for each in records.values() if each.sandbox and each.pod_uid == pod_uid)
    return next(sandboxes, None)
