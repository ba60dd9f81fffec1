# SPDX-License-Identifier: Apache-2.0
"""Spells the path of a cgroup from the names that the kernel stored."""

from collections.abc import Mapping

from xpumeter.model.kernel import CgroupId, CgroupName

ROOT = CgroupId(1)
"""The root of a hierarchy: the first inode of its file system (fs/kernfs/dir.c)."""


def path_of(cgroup_id: CgroupId, names: Mapping[CgroupId, CgroupName]) -> str | None:
    """Path from the root, `/` first; None if the names do not reach the root.

    A chain that breaks off has lost the names nearest the root, which say whether there is a pod:
    it is never read as if it were whole. Neither is one that runs in a circle, nor one with a name
    that the kernel has not filled in yet.
    """
    parts: list[str] = []
    # No chain is longer than all names together.
    for _ in range(len(names)):
        cgroup = names.get(cgroup_id)
        if cgroup is None:
            return None
        if cgroup_id == ROOT:
            return "/" + "/".join(reversed(parts))
        if not cgroup.name or not cgroup.parent:
            return None
        parts.append(cgroup.name)
        cgroup_id = cgroup.parent
    return None
