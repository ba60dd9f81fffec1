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
from typing import Any

from lab.cache import Cache, cache_root
from lab.debian import Apt, codename
from lab.errors import LabError
from lab.first import IN_DEBIAN, system
from lab.otelcol import BUILDER_MODULE, go_environment
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

COLD_GIB, WARM_GIB = 10, 1  # of which Go's own caches take 5
MEMORY_GIB = 3  # a guest of 2 GiB, QEMU, a Collector


def check_host() -> None:
    """Look at everything, say each, then raise the first thing that is not as it must be.

    Installs missing packages if it may.

    Raises:
        LabError: this host cannot run the lab; the hint says what to do.
    """
    # On another system the rest would speak of things that it has not.
    failed = _said(_system)
    for check in CHECKS if failed is None else ():
        failed = _said(check) or failed
    if failed is not None:
        raise failed


def _said(check: Callable[[], str]) -> LabError | None:
    try:
        say(f"  {check()}: ok")
    except LabError as error:
        say(f"  {error}: NO")
        return error
    return None


def _system() -> str:
    try:
        return system()
    except ValueError as error:
        raise LabError(str(error), hint=f"in a container: {IN_DEBIAN}") from error


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
    return _ran(argv).stdout == "installed"


def _apt(argv: list[str]) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = _ran(argv, env=env)
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
        # A venv's own pip: Debian's Python has none, and venv is what is asked for.
        made = _ran([sys.executable, "-m", "venv", f"{into}/venv"])
        if made.returncode:
            raise LabError(
                f"python -m venv fails: {_last(made)}", hint="apt-get install python3-venv"
            )
        download = ["-m", "pip", "download", "-q", "--no-deps", "-d", into, "typing-extensions"]
        done = _ran([f"{into}/venv/bin/python", *download])
    if done.returncode:
        raise LabError(f"pip reaches no index: {_last(done)}", hint="check pip's index and proxy")
    return "pip reaches its index"


def _ran(argv: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False, **options)


def _last(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else "no answer"


def _mirror() -> str:
    if any(cache_root().glob("root-*")):
        return "apt: nothing to fetch"
    with tempfile.TemporaryDirectory() as into:
        url = f"{Apt(Cache(cache_root())).mirror}/dists/{codename()}/InRelease"
        argv = ["/usr/lib/apt/apt-helper", "download-file", url, f"{into}/InRelease"]
        done = _ran(argv)
    if done.returncode:
        raise LabError(f"apt reaches no mirror: {_last(done)}", hint="check /etc/apt and its proxy")
    return "apt reaches its mirror"


def _go() -> str:
    if "OTELCOL" in os.environ or any(cache_root().glob("collector-*")):
        return "go: nothing to fetch"
    found = shutil.which("go")
    if found is None:
        return "go: none here, PyPI has one"
    argv = [found, "list", "-m", f"{BUILDER_MODULE}@latest"]
    with tempfile.TemporaryDirectory() as empty:
        done = _ran(argv, cwd=empty, env=go_environment(Path(found)))
    if done.returncode:
        raise LabError(f"go reaches no module proxy: {_last(done)}", hint="check `go env GOPROXY`")
    return "go reaches its module proxy"


CHECKS = (_disk, _memory, _null, _packages, _mirror, _pip, _go)
