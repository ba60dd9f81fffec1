# SPDX-License-Identifier: Apache-2.0
"""The kernel's uapi headers, unpacked: those of Debian 12 itself leave out `drm/`."""

from functools import partial
from pathlib import Path

from lab.cache import Cache
from lab.debian import Apt
from lab.errors import LabError

PACKAGE = "linux-libc-dev"


def include_folders(cache: Cache) -> tuple[Path, ...]:
    """Folders for the compiler's -I: the newest headers of the host's suite or its backports.

    Raises:
        LabError: apt does not reach its sources, or neither has headers with `drm/`.
    """
    for apt in (Apt(cache, backports=True), Apt(cache)):
        try:
            debs = [deb for deb in apt.closure([PACKAGE]) if deb.name == PACKAGE]
        except LabError:
            continue
        path = cache.entry(
            "headers",
            [deb.sha256 for deb in debs],
            partial(apt.unpack, debs),
        )
        if (path / "usr/include/drm/drm.h").exists():
            # Where the package serves all architectures, `asm/` is apart.
            apart = ("usr/include/x86_64-linux-gnu", "usr/lib/linux/uapi/x86")
            folders = [path / "usr/include", *(path / name for name in apart)]
            return tuple(folder for folder in folders if folder.is_dir())
    raise LabError(f"no {PACKAGE} with drm/ in the host's suite or its backports")
