# SPDX-License-Identifier: Apache-2.0
"""More facts about this host, for whom it does not go as it should: `doctor`.

Each takes the host's root, so that a test can show it another; None where it cannot be read.
"""

from contextlib import suppress
from pathlib import Path

from xpumeter.source import privileges

_MODES = {"0": "off", "1": "strict", "2": "filter"}  # Seccomp: of proc_pid_status(5)


def read(root: Path, path: str) -> str | None:
    """Text of a small file without the white space around it."""
    with suppress(OSError):
        return (root / path).read_text(errors="replace").strip()
    return None


def chosen(text: str | None) -> str | None:
    """The word in brackets: how the kernel shows a choice, `none [integrity] confidentiality`."""
    words = [word for word in (text or "").split() if word.startswith("[")]
    return words[0].strip("[]") if words else None


def lockdown(root: Path) -> str | None:
    """`none`, `integrity` or `confidentiality`."""
    return chosen(read(root, "sys/kernel/security/lockdown"))


def sysctl(root: Path, name: str) -> int | None:
    """A number below /proc/sys, by its dotted name."""
    text = read(root, f"proc/sys/{name.replace('.', '/')}")
    return int(text) if text and text.lstrip("-").isdigit() else None


def seccomp(root: Path) -> str | None:
    """Whether a filter decides on this process's system calls: `off`, `strict`, `filter`."""
    for line in (read(root, "proc/self/status") or "").splitlines():
        if line.startswith("Seccomp:"):
            return _MODES.get(line.split()[1])
    return None


def held(root: Path) -> tuple[str, ...]:
    """Those of the capabilities that attaching may need which this process holds."""
    every = tuple(privileges.Capability)
    lacking = privileges.missing(every, proc=root / "proc")
    return tuple(one.name for one in every if one.name not in lacking)


def pod_layout(root: Path) -> str | None:
    """Which driver made the cgroups of pods: `systemd` or `cgroupfs`; None where none are seen."""
    base = root / "sys/fs/cgroup"
    if (base / "kubepods.slice").is_dir():
        return "systemd"
    return "cgroupfs" if (base / "kubepods").is_dir() else None
