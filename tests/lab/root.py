# SPDX-License-Identifier: Apache-2.0
"""The guest's root: a tree of unpacked Debian packages, never the host's own."""

import os
from pathlib import Path

from lab import tree
from lab.cache import Cache, content
from lab.debian import UNPACKING, Apt

PACKAGES = (
    "containerd",
    "runc",
    "python3",
    "libstdc++6",  # grpcio
    "libbpf1",
    "busybox-static",
    "kmod",
    "pci.ids",  # names of vendors and models
    "util-linux",  # setpriv: what the agent does without privileges is a promise
)
FILES = {
    "etc/passwd": "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost\n10.0.2.2 host\n",
    "etc/nsswitch.conf": "hosts: files\n",
    "etc/hostname": "lab\n",
    "etc/resolv.conf": "",  # containerd copies it into every pod
}
MOUNT_POINTS = ("cache", "vm", "opt/lab", "opt/site", "dev", "proc", "sys", "run", "tmp")


def guest_root(cache: Cache, apt: Apt) -> Path:
    """containerd, runc, Python, libbpf, kmod and busybox for every other command."""
    debs = apt.closure(PACKAGES)

    def build(into: Path) -> None:
        apt.unpack(debs, into)
        for name, text in FILES.items():
            (into / name).write_text(text)
        for name in MOUNT_POINTS:
            (into / name).mkdir(parents=True, exist_ok=True)
        busybox = tree.run(into, "usr/bin/busybox", "--list").decode().split()
        for name in busybox:
            command = into / "usr/bin" / name
            if not os.path.lexists(command) and not os.path.lexists(into / "usr/sbin" / name):
                command.symlink_to("busybox")
        compile_python(into, into / f"usr/lib/{python_name(into)}", "usr/lib/" + python_name(into))

    return cache.entry(
        "root", [content(Path(__file__), UNPACKING), [deb.sha256 for deb in debs]], build
    )


def python_name(root: Path) -> str:
    """`python3.11`: the guest's own."""
    return (root / "usr/bin/python3").readlink().name


def compile_python(root: Path, folder: Path, seen_as: str) -> None:
    """Byte-compile `folder` for the guest, where its path is /`seen_as`.

    With the guest's own Python, through its own loader: the host's may be of another version, and
    what is not compiled here is compiled under emulation at each boot.
    """
    tree.run(
        root,
        f"usr/bin/{python_name(root)}",
        *("-S", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"),
        *("-x", r"/(test|lib2to3|idlelib)/"),
        *("-s", folder, "-p", "/" + seen_as, folder),
        env={"PYTHONHOME": str(root / "usr"), "PYTHONPATH": ""},
    )
