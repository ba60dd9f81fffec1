# SPDX-License-Identifier: Apache-2.0
"""The guest's initramfs: busybox, the modules to reach the root over 9p, and the DRM drivers."""

import stat
from pathlib import Path
from typing import BinaryIO

from lab.cache import Cache, content
from lab.kernel import Kernel
from lab.tools import Tools

HERE = Path(__file__).parent
FIRST = ("9p", "9pnet_virtio", "virtio_pci", "overlay", "virtio_console", "virtio_net")
DRM = ("virtio_gpu", "qxl", "vgem")  # in this order: it gives the minor numbers
FOLDERS = ("bin", "dev", "proc", "sys", "mods", "t")


def initrd(cache: Cache, tools: Tools, kernel: Kernel, root: Path) -> Path:
    """The file for this kernel; its /init is guest/init.sh."""

    def build(into: Path) -> None:
        with (into / "initrd").open("wb") as file:
            cpio = Cpio(file)
            for folder in FOLDERS:
                cpio.add(folder, stat.S_IFDIR | 0o755)
            cpio.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
            cpio.add("dev/null", stat.S_IFCHR | 0o666, device=(1, 3))
            cpio.add("bin/busybox", stat.S_IFREG | 0o755, (root / "usr/bin/busybox").read_bytes())
            cpio.add("init", stat.S_IFREG | 0o755, (HERE / "guest/init.sh").read_bytes())
            first = load_order(kernel.modules, FIRST)
            drm = [path for path in load_order(kernel.modules, DRM) if path not in first]
            for path in [*first, *drm]:
                data = (kernel.modules / path).read_bytes()
                if path.endswith(".xz"):  # busybox insmod cannot read it
                    data = tools.run("usr/bin/xz", "-dc", stdin=data)
                cpio.add(f"mods/{module_name(path)}.ko", stat.S_IFREG | 0o644, data)
            for name, paths in (("first", first), ("drm", drm)):
                order = "".join(f"{module_name(path)}\n" for path in paths)
                cpio.add(f"mods/{name}", stat.S_IFREG | 0o644, order.encode())
            cpio.add("TRAILER!!!", 0)

    key = [content(Path(__file__), HERE / "guest/init.sh"), kernel.folder.name, root.name]
    return cache.entry(f"initrd-{kernel.release}", key, build) / "initrd"


def module_name(path: str) -> str:
    """`virtio_gpu` of `kernel/drivers/gpu/drm/virtio/virtio-gpu.ko.xz`."""
    return path.rsplit("/", 1)[-1].split(".ko", maxsplit=1)[0].replace("-", "_")


def load_order(modules: Path, wanted: tuple[str, ...]) -> list[str]:
    """Paths below `modules` of the wanted ones and what they need, each after its needs."""
    needs = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[path] = others.split()
    path_of = {module_name(path): path for path in needs}
    builtin = {module_name(line) for line in (modules / "modules.builtin").read_text().splitlines()}
    order: list[str] = []
    for name in wanted:
        if name not in builtin:
            chain = [*reversed(needs[path_of[name]]), path_of[name]]
            order += [path for path in chain if path not in order]
    return order


class Cpio:
    """Writes the kernel's `newc` archive; device nodes too, without being root."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inode = 0

    def add(
        self, name: str, mode: int, data: bytes = b"", *, device: tuple[int, int] = (0, 0)
    ) -> None:
        """Append one member."""
        self._inode += 1
        raw = name.encode() + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(raw), 0)
        head = ("070701" + "".join(f"{field:08X}" for field in fields)).encode() + raw
        for part in (head, data):
            self._file.write(part + b"\0" * (-len(part) % 4))
