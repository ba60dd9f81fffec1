# SPDX-License-Identifier: Apache-2.0
"""What a cgroup's path says about its owner, by the names that kubelets and runtimes give.

A path gives keys, pod uid and container id; the container runtime gives names. Two facts carry
all rules: a pod's component ends in `pod` and a whole uid, and its container lies directly below.
Nothing above the pod is read (custom roots, nodes in containers), nothing below the container
(systemd, engines and clusters in it belong to it).
"""

import re
from collections.abc import Iterable, Sequence

from xpumeter.model.owners import Identity

_HEX = "[0-9a-fA-F]"
# systemd allows no `-` inside the name of a slice, so kubelets write `_`. A static pod's uid is an
# MD5 sum without separators.
_UID = rf"({_HEX}{{8}}(?:[-_]{_HEX}{{4}}){{3}}[-_]{_HEX}{{12}}|{_HEX}{{32}})"

# The kubelet's cgroupfs driver writes `pod<uid>`, its systemd driver `<anything>-pod<uid>.slice`. A
# runtime with the other driver takes the whole `<slice>:<runtime>:<id>` for one cgroup's name.
_POD = re.compile(rf"pod{_UID}|.*?-pod{_UID}\.slice(?::(.*))?", re.DOTALL)

# The list of runtimes' prefixes is open. What ends one is no letter or digit, so that an id with
# one digit too many is none.
_ID_LENGTH = 64
_CONTAINER = re.compile(rf"(?:.*[^0-9a-zA-Z])?({_HEX}{{64}})(?:\.scope)?", re.DOTALL)

# Kata's cgroups have the sandbox's id: what is in them is the virtual machine monitor.
_KATA = re.compile(r"kata[^0-9a-zA-Z].*", re.DOTALL)
_KATA_OVERHEAD = "kata_overhead"

# Where Podman's cgroupfs driver makes pods, `libpod_parent/<pod>/libpod-<container>`; a pod's id
# looks like a container's.
_PODMAN = "libpod_parent"

# systemd writes `_` before a unit's name that the kernel would take for a file of its own
# (`_memory.service`: systemd, src/basic/cgroup-util.c, cg_escape).
_UNIT = re.compile(r"_?(.+\.(?:service|scope|socket|mount|swap))", re.DOTALL)

# Behind the v2 path of a cgroup that is removed (kernel/cgroup/cgroup.c, proc_cgroup_show).
_DELETED = " (deleted)"

# Controllers of /proc/PID/cgroup, in the order in which their paths are likely to be a container's.
_CONTROLLERS = ("memory", "pids", "name=systemd")


def identify(path: str) -> Identity:
    """Pod, container or service of the host that a cgroup's path names.

    Takes a path of the kernel's, or one read in /proc, which may begin with `..`. Never raises and
    never guesses: a malformed id is no id.
    """
    parts = [part for part in path.split("/") if part]
    while parts and parts[0] == "..":
        del parts[0]
    whole = "/" + "/".join(parts)

    for place, part in enumerate(parts):
        pod = _POD.fullmatch(part)
        if pod:
            below = pod[3] if pod[3] is not None else "".join(parts[place + 1 : place + 2])
            uid = (pod[1] or pod[2]).replace("_", "-")
            machine = _KATA_OVERHEAD in parts[:place] or _KATA.fullmatch(below)
            return Identity(
                whole, pod_uid=uid, container_id=None if machine else _container_id(below)
            )

    container_id = _outermost_container(parts)
    if container_id:
        return Identity(whole, container_id=container_id)
    return Identity(whole, unit=_unit(parts))


def identify_process(text: str) -> Identity:
    """The same from /proc/PID/cgroup, whole or one line of it.

    On a v1 or hybrid host each line has a path of its own: the first with a pod wins, else the
    first with a container, else the first at all, in the order memory, pids, systemd's, other
    controllers, v2.
    """
    identities = [identify(path) for path in _paths(text)] or [identify("")]
    pods = (identity for identity in identities if identity.pod_uid)
    containers = (identity for identity in identities if identity.container_id)
    return next(pods, None) or next(containers, None) or identities[0]


def _container_id(name: str) -> str | None:
    # CRI-O's monitor has the container's id in its name and is not in the container.
    match = None if "conmon" in name else _CONTAINER.fullmatch(name)
    return match[1] if match else None


def _outermost_container(parts: Sequence[str]) -> str | None:
    shaped = (
        part
        for above, part in zip(("", *parts), parts, strict=False)
        if _CONTAINER.fullmatch(part) and not (above == _PODMAN and len(part) == _ID_LENGTH)
    )
    return _container_id(next(shaped, ""))


def _unit(parts: Iterable[str]) -> str | None:
    """As systemd reads a path: below the slices lies the unit, and all below that is its own."""
    first = next((part for part in parts if not part.endswith(".slice")), "")
    match = _UNIT.fullmatch(first)
    return match[1] if match else None


def _paths(text: str) -> list[str]:
    ranked = []
    # Not splitlines(): a cgroup's name may have any control character but the newline.
    for line in text.split("\n"):
        _, colon, rest = line.partition(":")
        controllers, second_colon, path = rest.partition(":")
        if colon and second_colon:
            if not controllers:
                path = path.removesuffix(_DELETED)
            ranked.append((_rank(controllers), path))
    return [path for _, path in sorted(ranked, key=lambda each: each[0])]


def _rank(controllers: str) -> int:
    if not controllers:
        return len(_CONTROLLERS) + 1
    places = (_CONTROLLERS.index(each) for each in controllers.split(",") if each in _CONTROLLERS)
    return min(places, default=len(_CONTROLLERS))
