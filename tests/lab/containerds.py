# SPDX-License-Identifier: Apache-2.0
"""Versions of containerd that the guest's Debian does not have, built from Go modules, once."""

import os
import re
import shutil
from pathlib import Path

from lab.cache import Cache, content
from lab.otelcol import go_environment, go_program, run_go
from lab.progress import say

PINNED = Path(__file__).with_name("containerd")
"""A folder for each version, with the go.mod and go.sum of the whole build."""

VERSIONS = ("v1.7", "v2")
PROGRAMS = ("containerd", "containerd-shim-runc-v2")
# Snapshotters that need C, or that no guest has.
TAGS = "no_btrfs no_devmapper no_zfs no_aufs"


def containerd(cache: Cache, version: str) -> Path:
    """Folder with containerd and its shim, of one of VERSIONS; minutes of CPU if not there."""
    pinned = PINNED / version
    mod = (pinned / "go.mod").read_text()
    module = re.search(r"^\t(github\.com/containerd/containerd(?:/v2)?) (v\S+)", mod, re.MULTILINE)
    assert module is not None
    go = go_program(cache, pinned / "go.mod")
    environment = go_environment(go)

    def build(into: Path) -> None:
        say(f"  containerd: building {module[2]}, some minutes, once")
        work = into / "work"
        shutil.copytree(pinned, work)
        flags = f"-s -w -X {module[1]}/version.Version={module[2]}"
        packages = [f"{module[1]}/cmd/{program}" for program in PROGRAMS]
        options = ["-trimpath", "-tags", TAGS, "-ldflags", flags, "-o", f"{into}/"]
        run_go([go, "build", *options, *packages], environment, work)
        shutil.rmtree(work)

    key = [content(Path(__file__), pinned), os.uname().machine]
    return cache.entry(f"containerd-{version}", key, build)
