# SPDX-License-Identifier: Apache-2.0
"""Which capabilities this process holds, and how it gives all of them up."""

import ctypes as c
import os
from enum import IntEnum
from pathlib import Path

_PR_CAPBSET_DROP = 24  # linux/prctl.h
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522  # linux/capability.h


class Capability(IntEnum):
    """Numbers of linux/capability.h."""

    CAP_SYS_ADMIN = 21
    CAP_PERFMON = 38
    CAP_BPF = 39


class _Header(c.Structure):
    _fields_ = (("version", c.c_uint32), ("pid", c.c_int))


class _Sets(c.Structure):
    _fields_ = (
        ("effective", c.c_uint32),
        ("permitted", c.c_uint32),
        ("inheritable", c.c_uint32),
    )


def missing(wanted: tuple[Capability, ...], *, proc: Path = Path("/proc")) -> tuple[str, ...]:
    """Names of the wanted capabilities that are not in the effective set."""
    mask = 0
    for line in (proc / "self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            mask = int(line.split()[1], 16)
    return tuple(one.name for one in wanted if not mask & 1 << one)


def drop_all() -> None:
    """Give up every capability, in every set, for good; uid and groups stay.

    Must run before any other thread starts: capset(2) acts on the calling thread alone.
    """
    libc = c.CDLL(None, use_errno=True)
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for capability in range(last + 1):
        # Without CAP_SETPCAP the bounding set stays, which no_new_privs makes harmless.
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    header, nothing = _Header(_CAPABILITY_VERSION_3, 0), (_Sets * 2)()
    if libc.capset(c.byref(header), nothing) != 0:
        number = c.get_errno()
        raise OSError(number, f"capset: {os.strerror(number)}")
