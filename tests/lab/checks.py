# SPDX-License-Identifier: Apache-2.0
"""Whether this host can run the lab: one line for each thing looked at, before anything is made."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from lab.cache import cache_root
from lab.errors import LabError
from lab.progress import say, step

PACKAGES = (
    "clang",  # the BPF object
    "llvm",  # llvm-strip
    "make",
    "libbpf-dev",
    "libc6-dev",
    "gcc",  # the workload and the pause program, linked statically
    "bpftool",  # the layout test
)
"""What must be installed on the host, with reasons.  Everything else is unpacked into the cache."""

DEBIAN = ("12", "13")
COLD_GIB, WARM_GIB = 6, 1
MEMORY_GIB = 3  # a guest of 2 GiB, QEMU, a Collector

IN_DEBIAN = (
    'docker run --rm -it -v "$PWD":/xpumeter -w /xpumeter debian:12 sh -c '
    "'apt-get update && apt-get install -y git make python3-venv && make demo'"
)


def check_host() -> None:
    """Look at everything, say each, then raise the first thing that is not as it must be.

    Installs missing packages if it may.

    Raises:
        LabError: this host cannot run the lab; the hint says what to do.
    """
    failed = [error for check in CHECKS if (error := _said(check))]
    if failed:
        raise failed[0]


def _said(check: Callable[[], str]) -> LabError | None:
    try:
        say(f"  {check()}: ok")
    except LabError as error:
        say(f"  {error}: NO")
        return error
    return None


def _system() -> str:
    machine = os.uname().machine
    if machine != "x86_64":
        raise LabError(f"machine {machine}", hint="the lab runs on x86-64 only")
    release = Path("/etc/os-release")
    lines = release.read_text().splitlines() if release.exists() else []
    told = dict(line.split("=", 1) for line in lines if "=" in line)
    name, version = (told.get(key, "?").strip('"') for key in ("ID", "VERSION_ID"))
    if name != "debian" or version not in DEBIAN:
        raise LabError(
            f"{name} {version}", hint=f"needs Debian 12 or 13; in a container: {IN_DEBIAN}"
        )
    return f"Debian {version}, x86-64"


def _disk() -> str:
    root = cache_root()
    cold = not any(root.glob("kernel-*"))
    needed = COLD_GIB if cold else WARM_GIB
    there = next(path for path in (root, *root.parents) if path.exists())
    free = shutil.disk_usage(there).free >> 30
    if free < needed:
        raise LabError(
            f"disk {free} GiB free, {needed} needed",
            hint=f"make room below {there}, or set XPUMETER_CACHE to a folder elsewhere",
        )
    return f"disk {free} GiB free"


def _memory() -> str:
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) / (1 << 20)
    if available < MEMORY_GIB:
        raise LabError(
            f"memory {available:.1f} GiB available, {MEMORY_GIB} needed", hint="end other programs"
        )
    return f"memory {available:.0f} GiB available"


def _null() -> str:
    if not stat.S_ISCHR(Path("/dev/null").stat().st_mode):
        raise LabError("/dev/null is a file", hint="rm /dev/null; mknod -m 666 /dev/null c 1 3")
    return "/dev/null is a device"


def _packages() -> str:
    missing = [name for name in PACKAGES if not _installed(name)]
    if missing and os.geteuid():
        raise LabError(
            f"not installed: {' '.join(missing)}",
            hint=f"sudo apt-get install -y --no-install-recommends {' '.join(missing)}",
        )
    if missing:
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
        with step(f"install {' '.join(missing)}"):
            for argv in (["apt-get", "update", "-qq"], install):
                _apt(argv)
    return f"packages {' '.join(PACKAGES)}"


def _installed(package: str) -> bool:
    argv = ["dpkg-query", "-W", "-f", "${db:Status-Status}", package]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout == "installed"


def _apt(argv: list[str]) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise LabError(
            f"{' '.join(argv[:2])}: {(errors or [done.stderr.strip()])[0]}",
            hint="check the sources and proxy in /etc/apt",
        )


def _pip() -> str:
    if any(cache_root().glob("site-*")):
        return "pip: nothing to fetch"
    with tempfile.TemporaryDirectory() as into:
        argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", into]
        done = subprocess.run(
            [*argv, "typing-extensions"], capture_output=True, text=True, check=False
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise LabError(
            f"pip reaches no index: {last}", hint="check pip's index, proxy and python3-venv"
        )
    return "pip reaches its index"


CHECKS = (_system, _disk, _memory, _null, _packages, _pip)
