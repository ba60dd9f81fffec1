# SPDX-License-Identifier: Apache-2.0
"""Stock Debian kernels, unpacked: an ELF vmlinux that QEMU starts, and all modules."""

import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from lab.cache import Cache, content
from lab.debian import UNPACKING, Apt, Deb
from lab.errors import LabError
from lab.tools import Tools

# The suite's kernel, and a newer one that Debian 12 has beside it.
METAPACKAGES = {"bookworm": ("linux-image-amd64", "linux-image-6.12-amd64")}
DEFAULT = ("linux-image-amd64",)

PAYLOADS = {
    b"\xfd7zXZ\0": ("usr/bin/xz", "-dc", "--single-stream"),
    b"\x28\xb5\x2f\xfd": ("usr/bin/zstd", "-dcq"),
    b"\x1f\x8b": ("usr/bin/gzip", "-dcq"),
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: `release` as uname says it, and the folder that holds it."""

    release: str
    folder: Path

    @property
    def vmlinux(self) -> Path:
        """The ELF file: unpacking a bzImage under emulation would take seconds of each boot."""
        return self.folder / "vmlinux"

    @property
    def modules(self) -> Path:
        """`/lib/modules/RELEASE`, with modules.dep."""
        return self.folder / "usr/lib/modules" / self.release

    @property
    def short(self) -> str:
        """`6.1`, `6.12`: for names of tests."""
        return ".".join(self.release.split(".")[:2])


def kernel_of(cache: Cache, apt: Apt, tools: Tools, metapackage: str) -> Kernel:
    """The kernel that the metapackage depends on today."""
    images = tuple(
        deb
        for deb in apt.closure([metapackage])
        if deb.name.startswith("linux-image-") and deb.name != metapackage
    )

    def build(into: Path) -> None:
        apt.unpack(images, into)
        (modules,) = (into / "usr/lib/modules").iterdir()
        tools.run("usr/bin/kmod", "-b", into, modules.name, name="depmod")
        bzimage = into / "boot" / f"vmlinuz-{modules.name}"
        (into / "vmlinux").write_bytes(vmlinux_of(bzimage.read_bytes(), tools))
        bzimage.unlink()
        shutil.rmtree(into / "usr/share", ignore_errors=True)

    folder = cache.entry(
        f"kernel-{release_of(images)}",
        [content(Path(__file__), UNPACKING), [deb.sha256 for deb in images]],
        build,
    )
    return Kernel(release_of(images), folder)


def release_of(images: tuple[Deb, ...]) -> str:
    """What uname says: the package is named after it."""
    if len(images) != 1:
        raise LabError(f"one kernel package expected, apt named {[deb.name for deb in images]}")
    return images[0].name.removeprefix("linux-image-")


def vmlinux_of(bzimage: bytes, tools: Tools) -> bytes:
    """The ELF file inside a bzImage (Documentation/arch/x86/boot.rst: the setup header)."""
    if bzimage[0x202:0x206] != b"HdrS":
        raise LabError("the kernel image is no bzImage")
    setup_sectors = (bzimage[0x1F1] or 4) + 1
    offset, length = struct.unpack_from("<II", bzimage, 0x248)  # payload_offset, payload_length
    begin = setup_sectors * 512 + offset
    payload = bzimage[begin : begin + length - 4]  # the build adds 4 bytes: the unpacked size
    for magic, (program, *args) in PAYLOADS.items():
        if payload.startswith(magic):
            return tools.run(program, *args, stdin=payload)
    raise LabError(f"the kernel image is packed in a way unknown here: {payload[:6].hex()}")
