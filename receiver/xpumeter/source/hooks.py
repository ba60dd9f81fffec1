# SPDX-License-Identifier: Apache-2.0
"""The registry of hooks: where programs can attach, best first. Chosen by trying, never by version.

A hook without programs has its name and place here, and is refused with its reason.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from xpumeter.hook import Hook


class Plan(NamedTuple):
    """How one hook is attached.

    Attributes:
        hook: Its name.
        slots: Map of one slot -> the program that goes behind the stub.
        attach: Programs in the order in which they attach: returns before entries, or calls asleep
            in between would leave open entries.
        missing: Why it cannot be tried; empty if it can.
    """

    hook: Hook
    slots: Mapping[str, str] = MappingProxyType({})
    attach: tuple[str, ...] = ()
    missing: str = ""

    @property
    def programs(self) -> frozenset[str]:
        """All that must load for it."""
        return frozenset(self.attach) | frozenset(self.slots.values())


_EVERYWHERE = ("on_cgroup_rmdir", "on_thread_exit")

PLANS: tuple[Plan, ...] = (
    Plan(
        Hook.FEXIT,
        slots={"return_slot": "on_drm_ioctl_return", "entry_slot": "on_drm_ioctl"},
        attach=(*_EVERYWHERE, "return_stub", "entry_stub"),
    ),
    Plan(Hook.KPROBE, missing="kprobe with a return is not in this version"),
    Plan(Hook.FILE_IOCTL, missing="security_file_ioctl is not in this version"),
    Plan(Hook.BCC, missing="compiling on the host with bcc is not in this version"),
)

READERS = ("rows", "cgroups", "devices", "totals", "threads", "losses", "meta")
"""Maps that are read through a pinned iterator of the same name; the program is read_NAME."""

RETIRERS: Mapping[str, str] = MappingProxyType(
    {"offer_rows": "rows", "retire_rows": "rows", "retire_cgroups": "cgroups"}
)
"""Pinned iterator and program -> the map. Who reads these changes it: for the agent alone."""

MAPS = (*READERS, "last_device", "events", "entry_slot", "return_slot")
"""All maps; pinned as map_NAME."""


def number(hook: Hook) -> int:
    """Its place in the registry, as `meta` holds it."""
    return [plan.hook for plan in PLANS].index(hook)


def named(place: int) -> Hook | None:
    """The hook at that place; None for one that this version does not know."""
    return PLANS[place].hook if 0 <= place < len(PLANS) else None
