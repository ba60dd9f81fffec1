# SPDX-License-Identifier: Apache-2.0
"""One file for a bug report: what `doctor` found and what it was found on, private names removed.

Everything in it is chosen, nothing is swept up: no environment, no command line of a process, no
name of a pod. What a path or a message may have brought along is replaced by what it is.
"""

import json
import os
import platform
import re
import socket
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from xpumeter import drivers, inventory
from xpumeter.doctor.examination import Examination
from xpumeter.source import facts

_PACKAGES = ("xpumeter", "grpcio", "protobuf", "opentelemetry-sdk", "pyyaml")
_PRIVATE = (
    (re.compile(r"[0-9a-f]{64}"), "CONTAINER"),
    (re.compile(r"[0-9a-f]{8}[-_]?(?:[0-9a-f]{4}[-_]?){3}[0-9a-f]{12}"), "UID"),
    (re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"), "ADDRESS"),
    (re.compile(r"\[[0-9a-fA-F:]*:[0-9a-fA-F:]+\]"), "[ADDRESS]"),
    (re.compile(r"[^\s(@]+@[^\s)@]+"), "USER@HOST"),  # who built the kernel
    (re.compile(r"(?<=/home/)[^/\s]+"), "USER"),
    (re.compile(r"(?<=://)(?!localhost|CONTAINER)[^/:\s\[]+(?=[:/\s]|$)"), "HOST"),
)


def write(path: Path, found: Examination, *, root: Path = Path("/")) -> None:
    """Write the report, readable text; OSError if the file cannot be written."""
    path.write_text(text(found, root=root))


def text(found: Examination, *, root: Path = Path("/")) -> str:
    """The report: read it before you attach it."""
    parts = {
        "checks": found.document()["checks"],
        "versions": _versions(),
        "system": _system(root),
        "cgroup mounts": _mounts(root, ("cgroup", "cgroup2", "bpf")),
        "devices": _devices(root),
    }
    body = "\n".join(f"## {name}\n\n{json.dumps(part, indent=2)}\n" for name, part in parts.items())
    head = "xpumeter doctor --report. Private names are removed; read it before you attach it.\n\n"
    return private(head + body, names=(socket.gethostname(),))


def private(words: str, *, names: Iterable[str] = ()) -> str:
    """A text without ids, addresses, hosts of URLs and users; and without `names`."""
    for pattern, stands_for in _PRIVATE:
        words = pattern.sub(stands_for, words)
    for name in names:
        if len(name) > 2:
            words = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "HOST", words)
    return words


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _system(root: Path) -> dict[str, Any]:
    release = dict(
        line.split("=", 1)
        for line in (facts.read(root, "etc/os-release") or "").splitlines()
        if "=" in line
    )
    return {
        "kernel": (facts.read(root, "proc/version") or os.uname().version),
        "machine": os.uname().machine,
        "system": release.get("PRETTY_NAME", "").strip('"'),
        "cpus": os.cpu_count(),
        "preempt": facts.chosen(facts.read(root, "sys/kernel/debug/sched/preempt")),
    }


def _mounts(root: Path, kinds: tuple[str, ...]) -> list[str]:
    lines = (facts.read(root, "proc/self/mounts") or "").splitlines()
    return [line for line in lines if len(line.split()) > 2 and line.split()[2] in kinds]


def _devices(root: Path) -> Any:
    return inventory.entries(root / "sys", drivers.load())
