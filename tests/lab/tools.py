# SPDX-License-Identifier: Apache-2.0
"""Programs that the lab runs on the host: QEMU, depmod, xz, zstd; unpacked, not installed."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import tree
from lab.cache import Cache, content
from lab.debian import UNPACKING, Apt, Deb
from lab.errors import LabError
from lab.progress import say

QEMU = "qemu-system-x86"
QXL = "qemu-system-modules-spice"  # where its device is since QEMU 8
OTHERS = ("kmod", "xz-utils", "zstd")

# Before 8.1 a second vCPU may run a stale int3 after the kernel patched its own code, which each
# attach of a BPF program does: "Oops: int3".
TWO_CPUS_FROM = (8, 1)


@dataclass(frozen=True, slots=True)
class Tools:
    """Where they are, and how many CPUs this QEMU may give a guest."""

    tree: Path
    cpus: int

    def run(self, program: str, *args: str | Path, name: str = "", stdin: bytes = b"") -> bytes:
        """Output of one of the tools."""
        return tree.run(self.tree, program, *args, name=name, stdin=stdin)

    def qemu(self) -> list[str]:
        """Start of QEMU's command line."""
        share = self.tree / "usr/share"
        data = [word for name in ("qemu", "seabios") for word in ("-L", str(share / name))]
        return [*tree.command(self.tree, "usr/bin/qemu-system-x86_64"), *data]

    def environment(self) -> Mapping[str, str]:
        """Environment for QEMU: its display devices are modules."""
        return {**os.environ, "QEMU_MODULE_DIR": str(self.tree / tree.LIBRARIES / "qemu")}


def host_tools(cache: Cache, apt: Apt) -> Tools:
    """The newest QEMU that the host's suite or its backports have."""
    debs = apt.closure([QEMU, *OTHERS])
    if _version(debs) < TWO_CPUS_FROM:
        try:
            newer = Apt(cache, backports=True)
            apt, debs = newer, newer.closure([QEMU, QXL, *OTHERS])
        except LabError as error:
            say(f"  QEMU {_version(debs)[0]} with one CPU, a fifth slower: no backports ({error})")
    else:
        debs = apt.closure([QEMU, QXL, *OTHERS])
    path = cache.entry(
        "tools",
        [content(Path(__file__), UNPACKING), [deb.sha256 for deb in debs]],
        lambda into: apt.unpack(debs, into),
    )
    return Tools(path, cpus=2 if _version(debs) >= TWO_CPUS_FROM else 1)


def _version(debs: tuple[Deb, ...]) -> tuple[int, int]:
    (qemu,) = (deb for deb in debs if deb.name == QEMU)
    major, minor = re.sub(r"^\d+:", "", qemu.version).split(".")[:2]
    return int(major), int(re.match(r"\d+", minor)[0])  # type: ignore[index]
