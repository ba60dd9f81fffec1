# SPDX-License-Identifier: Apache-2.0
"""In the guest: calls from cgroups that come and go, and what the kernel keeps of them."""

import ctypes
import fcntl
import os
import struct
import threading
import time
from collections import Counter
from contextlib import suppress
from mmap import mmap
from pathlib import Path

from xpumeter.model.kernel import CgroupId, Row
from xpumeter.source import layout
from xpumeter.source.pins import Pins

PINS = Path("/sys/fs/bpf/xpumeter")
CGROUPS = Path("/sys/fs/cgroup")
NODE = "/dev/dri/card2"  # vgem
VERSION_BYTES = 64  # struct drm_version of uapi/drm/drm.h
VERSION = 0xC0406400
GRACE_S = 5.5  # XPUMETER_GRACE_NS, and the clock's grain

Key = tuple[int, int, int, int]


def pod(number: int) -> Path:
    """Path of a pod's cgroup."""
    return CGROUPS / f"retire/burstable/pod{number:08x}-0000-0000-0000-000000000000"


def enter(cgroup: Path) -> CgroupId:
    """Move this process, into a cgroup that is made if it is not there; its id."""
    cgroup.mkdir(parents=True, exist_ok=True)
    (cgroup / "cgroup.procs").write_text("0")
    return CgroupId(cgroup.stat().st_ino)


def leave() -> None:
    """Move this process to the root."""
    (CGROUPS / "cgroup.procs").write_text("0")


def remove(top: Path) -> None:
    """Remove a cgroup and all below it."""
    for folder, _, _ in os.walk(top, topdown=False):
        Path(folder).rmdir()


def call(node: int, number: int = 0) -> None:
    """Make one call: the driver's version, or any number without an argument, failed or not."""
    if number == 0:
        fcntl.ioctl(node, VERSION, bytearray(VERSION_BYTES))
        return
    with suppress(OSError):
        fcntl.ioctl(node, ord("d") << 8 | number)


def keyed(row: Row) -> Key:
    """What makes it this row."""
    return row.cgroup_id, row.device, row.nr, row.error


class Books:
    """What an agent that keeps offered rows would know: all calls, whatever was retired."""

    def __init__(self) -> None:
        self.pins = Pins(PINS)
        self.kept: dict[Key, int] = {}
        self.live: dict[Key, int] = {}
        self.total = 0

    def read(self) -> None:
        """Read, and keep what is offered."""
        reading = self.pins.read()
        self.live = {keyed(row): row.calls for row in reading.rows}
        self.kept |= {keyed(row): row.calls for row in reading.rows if row.offered}
        self.total = sum(total.returns for total in reading.totals)

    def settle(self, tries: int = 12) -> None:
        """Read and retire until nothing goes any more."""
        for _ in range(tries):
            self.read()
            if self.pins.retire() == (0, 0):
                break
        self.read()

    @property
    def calls(self) -> dict[Key, int]:
        """Calls of every row that was ever there."""
        return self.kept | self.live

    def balanced(self) -> bool:
        """Whether all that the kernel counted is in the books."""
        return sum(self.calls.values()) == self.total


def payer(cgroup: Path) -> str:
    """Whose room a caller's name takes, as a path below the root of cgroups."""
    names = layout.record(layout.KEY_U64, layout.CGROUP_NAME.codes)
    tenants = {each[0]: each[2] for each in names.iter_unpack((PINS / "cgroups").read_bytes())}
    tenant = tenants[cgroup.stat().st_ino]
    (found,) = (each for each in (cgroup, *cgroup.parents) if each.stat().st_ino == tenant)
    return str(found.relative_to(CGROUPS))


def exact() -> list[str]:
    """What is wrong with the kernel's own counts of who uses what; nobody may call meanwhile."""
    rows = layout.record(layout.ROW_KEY.codes, layout.ROW.codes)
    names = layout.record(layout.KEY_U64, layout.CGROUP_NAME.codes)
    uses, of_rows, of_names = Counter[int](), Counter[int](), Counter[int]()
    for cgroup_id, *_, tenant in rows.iter_unpack((PINS / "rows").read_bytes()):
        if tenant:
            uses[cgroup_id] += 1
            of_rows[tenant] += 1
    stored = list(names.iter_unpack((PINS / "cgroups").read_bytes()))
    for cgroup_id, parent, tenant, *_ in stored:
        uses[parent] += 1
        of_names[tenant] += tenant != cgroup_id
    wrong = []
    for cgroup_id, _, _, _, _, used, tenant_rows, tenant_names, _, name in stored:
        found = used, tenant_rows, tenant_names
        expected = uses[cgroup_id], of_rows[cgroup_id], of_names[cgroup_id]
        if found != expected:
            wrong.append(f"{name.partition(bytes(1))[0]!r}: {found} and not {expected}")
    return wrong


class Sleeper(threading.Thread):
    """A thread that is in a call until it is woken: the driver waits for its argument's memory.

    drm_ioctl() copies the argument, which lies in a page that userfaultfd(2) withholds (numbers and
    structs: uapi/linux/userfaultfd.h).
    """

    def __init__(self, node: int) -> None:
        super().__init__(daemon=True)
        self._node = node
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._page = mmap(-1, 4096)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._fault = self._libc.syscall(323, os.O_CLOEXEC)
        assert self._fault >= 0, os.strerror(ctypes.get_errno())
        fcntl.ioctl(self._fault, 0xC018AA3F, struct.pack("=QQQ", 0xAA, 0, 0))
        missing = struct.pack("=QQQQ", self._address, 4096, 1, 0)
        fcntl.ioctl(self._fault, 0xC020AA00, missing)
        self.result: int | None = None

    def run(self) -> None:
        """Make the call."""
        self.result = self._libc.ioctl(
            self._node, ctypes.c_ulong(VERSION), ctypes.c_void_p(self._address)
        )

    def wake(self) -> None:
        """Give it the page, and return when the call is over."""
        zeropage = struct.pack("=QQQq", self._address, 4096, 0, 0)
        fcntl.ioctl(self._fault, 0xC020AA04, zeropage)
        self.join(10)


def wait_for_grace() -> None:
    """Until what was removed before may go."""
    time.sleep(GRACE_S)
