# SPDX-License-Identifier: Apache-2.0
"""The kernel's uapi headers of several versions, unpacked from Debian's packages."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.cache import Cache
from lab.debian import Apt, Deb
from lab.errors import LabError

LINUX = "linux-libc-dev"
LIBDRM = "libdrm-dev"
"""Has copies of DRM's headers, of a kernel somewhat older; no `accel` driver's."""


@dataclass(frozen=True, slots=True)
class Headers:
    """One version: `name` as people say it, folders for the compiler's -I."""

    name: str
    folders: tuple[Path, ...]


def every_version(cache: Cache) -> tuple[Headers, ...]:
    """Headers that can be had here, oldest suite first; none twice.

    The host's suite (Debian 12's own linux-libc-dev leaves out `drm/`, its libdrm-dev has it), its
    backports, and Debian's newest kernel, in sid. What cannot be had is passed over.
    """
    apts = (Apt(cache), Apt(cache, backports=True), Apt(cache, suite="sid"))
    wanted = [(apts[0], LIBDRM), *((apt, LINUX) for apt in apts)]
    found: dict[str, Headers] = {}
    for apt, package in wanted:
        try:
            headers = _unpacked(cache, apt, package)
        except LabError:
            continue
        if headers:
            found.setdefault(headers.name, headers)
    return tuple(found.values())


def newest(cache: Cache) -> Headers:
    """Headers of the newest kernel that can be had here. LabError if there are none."""
    versions = every_version(cache)
    if not versions:
        raise LabError("no package with drm/ headers in the host's suite, its backports, or sid")
    return versions[-1]


def _unpacked(cache: Cache, apt: Apt, package: str) -> Headers | None:
    """The headers of one package; None if it has no `drm/`."""
    (deb,) = [deb for deb in apt.closure([package]) if deb.name == package]
    path = cache.entry("headers", [deb.sha256], partial(_unpack, apt, deb))
    if not (path / "usr/include/drm/drm.h").exists():
        return None
    # Where the package serves all architectures, `asm/` is apart.
    apart = ("usr/include/x86_64-linux-gnu", "usr/lib/linux/uapi/x86")
    folders = [path / "usr/include", *(path / name for name in apart)]
    what = "Linux" if package == LINUX else "libdrm"
    version = ".".join(deb.version.split("-")[0].split(".")[: 2 if package == LINUX else 3])
    return Headers(f"{what} {version}", tuple(folder for folder in folders if folder.is_dir()))


def _unpack(apt: Apt, deb: Deb, into: Path) -> None:
    apt.unpack([deb], into)
    include = into / "usr/include"
    if (include / "libdrm").is_dir():
        (include / "drm").symlink_to("libdrm")
