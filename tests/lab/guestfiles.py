# SPDX-License-Identifier: Apache-2.0
"""What the guest gets of ours, seen as /opt/lab: scripts, the workload, container images."""

import shutil
import subprocess
import sys
from pathlib import Path

from lab.cache import Cache, content
from lab.image import Image, write_images

HERE = Path(__file__).parent
STATIC = ("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread")
PROGRAMS = {
    "pause": ("pause.c",),
    "workload": ("workload.c", "order.c", "hang.c"),
    "crowd": ("crowd.c",),
}
SHELL = ("sh", "cat", "echo", "ls", "sleep", "true")


def guest_files(cache: Cache, root: Path) -> Path:
    """Folder with `main.sh`, `containerd.toml`, `images.tar`, and commands in `bin`."""
    guest, image = HERE / "guest", HERE / "image"

    def build(into: Path) -> None:
        programs = into / "bin"
        programs.mkdir()
        for name in ("main.sh", "containerd.toml"):
            shutil.copy(guest / name, into)
        shutil.copy(guest / "launch.sh", programs / "xpumeter")
        shutil.copy(guest / "beside.sh", programs / "containerd-beside")
        shutil.copy(guest / "pods.py", into)
        (programs / "pods").write_text('#!/bin/sh\nexec python3 /opt/lab/pods.py "$@"\n')
        (programs / "pods").chmod(0o755)
        protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{guest}", f"--python_out={into}"]
        subprocess.run([*protoc, "runtime.proto"], check=True)
        for name, sources in PROGRAMS.items():
            files = [image / source for source in sources]
            subprocess.run([*STATIC, "-o", programs / name, *files], check=True)
        busybox = {f"bin/{name}": "/bin/busybox" for name in SHELL}
        tools = {"workload": programs / "workload", "bin/busybox": root / "usr/bin/busybox"}
        write_images(
            [
                Image("localhost/pause:1", ("/pause",), {"pause": programs / "pause"}, {}),
                Image("localhost/workload:1", ("/workload",), tools, busybox),
            ],
            into / "images.tar",
        )

    key = [content(Path(__file__), HERE / "image.py", guest, image), root.name]
    return cache.entry("guest", key, build)
