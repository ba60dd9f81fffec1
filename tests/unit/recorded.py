# SPDX-License-Identifier: Apache-2.0
"""Recorded hosts (tests/hosts), as the /sys that they were recorded from."""

from pathlib import Path

from xpumeter.source import record

HOSTS = Path(__file__).parents[1] / "hosts"


def names() -> list[str]:
    """Every recorded host."""
    return sorted(file.stem for file in HOSTS.glob("*.txt"))


def sysfs_of(host: str, folder: Path) -> Path:
    """The host's /sys, below `folder`."""
    return record.unpack(HOSTS / f"{host}.txt", folder / host)
