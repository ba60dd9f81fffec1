# SPDX-License-Identifier: Apache-2.0
"""The structs of bpf/xpumeter.h, mirrored; tests/unit/test_layout.py compares the two.

`attach` needs this and not the nouns that the bytes become (wire.py), so it imports little: named
tuples, since dataclasses bring `inspect`, a third of a second of an emulated machine.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

LAYOUT = 2
"""XPUMETER_LAYOUT: pins of another layout are not read."""

ROW_LIMIT = 16384
"""XPUMETER_ROWS."""


class Hierarchy(IntEnum):
    """XPUMETER_CGROUP_...: what ids of cgroups are of. `V1`: of one that names nobody."""

    V2 = 0
    PIDS = 1
    MEMORY = 2
    V1 = 3


class Struct(NamedTuple):
    """One struct of xpumeter.h: members in order, each with its code of module `struct`."""

    name: str
    members: tuple[tuple[str, str], ...]

    @property
    def codes(self) -> str:
        """Format of the whole struct, without byte order."""
        return "".join(code for _, code in self.members)


ROW_KEY = Struct("row_key", (("cgroup_id", "Q"), ("device", "I"), ("nr", "H"), ("error", "H")))
ROW = Struct(
    "row",
    (
        *(("calls", "Q"), ("time_ns", "Q"), ("first_boot_ns", "Q")),
        *(("offered", "Q"), ("tenant", "Q")),
    ),
)
THREAD = Struct(
    "thread",
    (
        *(("start_ns", "Q"), ("cgroup_id", "Q"), ("home", "Q")),
        *(("device", "I"), ("nr", "H"), ("open", "H")),
    ),
)
CGROUP_NAME = Struct(
    "cgroup_name",
    (
        *(("parent", "Q"), ("tenant", "Q"), ("dead_ns", "Q"), ("busy_ns", "Q")),
        *(("uses", "I"), ("tenant_rows", "I"), ("tenant_cgroups", "I"), ("in_pod", "I")),
        ("name", "256s"),
    ),
)
DEVICE_KEY = Struct("device_key", (("parent", "Q"), ("inode", "Q")))
DEVICE = Struct("device", (("incarnation", "I"), ("node", "I"), ("driver", "32s"), ("name", "64s")))
TOTAL = Struct("total", (("returns", "Q"), ("refused", "Q"), ("lapsed", "Q")))
LOSSES = Struct(
    "losses",
    tuple(
        (name, "Q")
        for name in (
            *("events", "threads", "cgroups", "devices", "entries", "returns", "empty_slots"),
            *("tenant_rows", "tenant_cgroups"),
        )
    ),
)
CALL_EVENT = Struct(
    "call_event",
    (
        *(("boot_ns", "Q"), ("cgroup_id", "Q"), ("device", "I")),
        *(("tgid", "I"), ("cmd", "I"), ("error", "I")),
    ),
)
META = Struct(
    "meta",
    (
        *(
            ("layout", "I"),
            ("hook", "H"),
            ("hierarchy", "H"),
            ("attached_boot_ns", "Q"),
            ("lease_ns", "Q"),
        ),
        *(("attach_id", "16s"), ("object_sha256", "32s")),
    ),
)
STRUCTS = (
    *(ROW_KEY, ROW, THREAD, CGROUP_NAME, DEVICE_KEY, DEVICE),
    *(TOTAL, LOSSES, CALL_EVENT, META),
)


def record(*parts: str) -> struct.Struct:
    """Packed, in the host's byte order: the structs have no holes."""
    return struct.Struct("=" + "".join(parts))


KEY_U32, KEY_U64 = "I", "Q"
"""Keys of arrays, and of maps by cgroup or thread."""

_META = record(META.codes)
_META_FILE = record(KEY_U32, META.codes)


class Meta(NamedTuple):
    """What these pins are."""

    layout: int
    hook: int
    attached_boot_ns: int
    lease_ns: int
    attach_id: bytes
    object_sha256: bytes
    hierarchy: int = Hierarchy.V2

    def pack(self) -> bytes:
        """As the `meta` map holds it."""
        layout, hook, *others, hierarchy = self
        return _META.pack(layout, hook, hierarchy, *others)


def decode_meta(data: bytes) -> Meta | None:
    """What the reader of `meta` gives; None if that is no whole record."""
    if len(data) < _META_FILE.size:
        return None
    _, number, hook, hierarchy, *others = _META_FILE.unpack_from(data)
    return Meta._make([number, hook, *others, hierarchy])
