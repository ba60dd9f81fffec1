# SPDX-License-Identifier: Apache-2.0
"""Prometheus and promtool, from Debian's package: unpacked, not installed."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab import tree
from lab.cache import Cache, content
from lab.debian import UNPACKING, Apt

# The closure has what its web pages and its installation need besides: fonts, perl, adduser.
PACKAGES = ("libc6", "prometheus")


@dataclass(frozen=True, slots=True)
class Prometheus:
    """Where the package lies."""

    tree: Path

    def command(self, program: str, *args: str | Path) -> list[str]:
        """Argument vector of `prometheus` or `promtool`, which may be started from anywhere."""
        return tree.command(self.tree, f"usr/bin/{program}", *args)

    def promtool(self, *args: str | Path, stdin: str = "") -> str:
        """What promtool says, on both its outputs; empty if it has nothing to say.

        Raises:
            AssertionError: It finds fault; the message is what it says.
        """
        done = subprocess.run(
            self.command("promtool", *args),
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"promtool {args[0]}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout


def prometheus(cache: Cache) -> Prometheus:
    """The package of the host's own Debian.

    Raises:
        LabError: apt does not reach its sources, or has no such package.
    """
    apt = Apt(cache)
    debs = [deb for deb in apt.closure(["prometheus"]) if deb.name in PACKAGES]
    path = cache.entry(
        "prometheus",
        [content(Path(__file__), UNPACKING), [deb.sha256 for deb in debs]],
        lambda into: apt.unpack(debs, into),
    )
    return Prometheus(path)
