# SPDX-License-Identifier: Apache-2.0
"""Facts about this host, found by looking; what follows from them is decided elsewhere."""

import os
from pathlib import Path
from typing import NamedTuple

from xpumeter.errors import DriverNotLoaded, HostError, MissingCapability
from xpumeter.hook import PINS
from xpumeter.source import privileges
from xpumeter.source.layout import Hierarchy
from xpumeter.source.privileges import Capability


class Host(NamedTuple):
    """What attaching and naming depend on.

    Attributes:
        kernel: Release, as uname says it.
        kernel_btf: The kernel brings its own type information.
        drm: `drm` is there, as a module or built in.
        drm_module_btf: It is a module with type information.
        missing: Names of the capabilities that attaching needs and this process lacks.
    """

    kernel: str
    kernel_btf: bool
    drm: bool
    drm_module_btf: bool
    missing: tuple[str, ...]


def look(root: Path = Path("/")) -> Host:
    """Look at the host whose root this is."""
    module_btf = (root / "sys/kernel/btf/drm").exists()
    wanted = [Capability.CAP_BPF, Capability.CAP_PERFMON]
    if module_btf:
        # libbpf finds a module's types by BPF_BTF_GET_NEXT_ID, which wants it.
        wanted.append(Capability.CAP_SYS_ADMIN)
    return Host(
        kernel=os.uname().release,
        kernel_btf=(root / "sys/kernel/btf/vmlinux").exists(),
        drm=(root / "sys/class/drm").exists(),
        drm_module_btf=module_btf,
        missing=privileges.missing(tuple(wanted), proc=root / "proc"),
    )


def hierarchy(root: Path = Path("/")) -> Hierarchy:
    """The hierarchy of cgroups in which container runtimes make theirs.

    They use every v1 hierarchy that has a controller, and the v2 one, as its only one, where the
    controllers are on that. Source: /proc/cgroups, which is the host's in a container too; its
    second column is 0 for a controller that is on no v1 hierarchy.
    """
    try:
        lines = (root / "proc/cgroups").read_text().splitlines()
    except OSError:  # a kernel without v1
        return Hierarchy.V2
    rows = [line.split() for line in lines if not line.startswith("#")]
    enabled = {row[0]: row[1] != "0" for row in rows if len(row) == 4 and row[3] != "0"}
    if not any(enabled.values()):
        return Hierarchy.V2
    if enabled.get("pids"):
        return Hierarchy.PIDS
    if enabled.get("memory"):
        return Hierarchy.MEMORY
    # The others may be anywhere; where one of these two is on v2, so are the containers.
    return Hierarchy.V2 if enabled.keys() & {"pids", "memory"} else Hierarchy.V1


def is_bpffs(path: Path, *, mounts: Path = Path("/proc/self/mounts")) -> bool:
    """Whether the folder lies in a mounted BPF file system."""
    best, kind = "", ""
    for line in mounts.read_text(errors="replace").splitlines():
        _, place, this_kind, *_ = [*line.split(" "), "", "", ""]
        inside = str(path) == place or str(path).startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):
            best, kind = place, this_kind
    return kind == "bpf"


def require_attachable(host: Host, pins: Path) -> None:
    """Say in one line why nothing can be attached here.

    Raises:
        MissingCapability: The message names what is missing.
        DriverNotLoaded: It may come later.
        HostError: The kernel, or the file system of the pins.
    """
    if host.missing:
        raise MissingCapability(
            f"attaching needs {', '.join(host.missing)}",
            hint="run it as root (sudo), or give the container these capabilities",
        )
    if not host.kernel_btf:
        raise HostError(
            f"kernel {host.kernel} has no BTF (/sys/kernel/btf/vmlinux)",
            hint="xpumeter needs a kernel built with CONFIG_DEBUG_INFO_BTF, as distributions build "
            "them since 6.1",
        )
    if "." in pins.name:
        raise HostError(
            f"{pins}: a BPF file system takes no names with a dot",
            hint="choose another name in receivers.xpumeter.pins",
        )
    if not is_bpffs(pins.parent):
        usual = pins.parent == PINS.parent
        raise HostError(
            f"{pins.parent} is not in a BPF file system",
            hint=f"mount one: mount -t bpf bpf {PINS.parent}"
            if usual
            else f"let receivers.xpumeter.pins be a folder in {PINS.parent}",
        )
    if not host.drm:
        raise DriverNotLoaded(
            "drm is not loaded: no driver is there whose calls could be counted",
            hint="load the accelerator's driver (modprobe), then attach",
        )
