# SPDX-License-Identifier: Apache-2.0
"""Puts the programs into the kernel and keeps them there: load, attach, pin. And takes them out.

What is attached outlives this process.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from xpumeter.errors import HostError, NotAttached
from xpumeter.hook import Hook
from xpumeter.source import folder, hooks, layout, libbpf, probe

_LOG_LINES = 6
_PUBLIC, _PRIVATE = 0o444, 0o600
_AGENT = 0o400
"""Reading these deletes: the owner, who is whoever attached, and `run` with the same uid."""


class Attached(NamedTuple):
    """What is attached now.

    Attributes:
        hook: The one taken.
        fresh: Attached by this call; False if it was there before.
        same_object: It is this version's object; False if an older one was there and was kept.
        refused: Better hooks, each with the reason why it was not taken.
        log: What libbpf and the verifier said.
    """

    hook: Hook
    fresh: bool
    same_object: bool
    refused: tuple[tuple[Hook, str], ...] = ()
    log: tuple[str, ...] = ()


class Refused(HostError):  # noqa: N818
    """The kernel took none of the hooks; `log` is the verifier's whole word."""

    def __init__(self, message: str, *, hint: str, log: Sequence[str]) -> None:
        super().__init__(message, hint=hint)
        self.log = tuple(log)


def attach(object_file: Path, pins: Path, wanted: Sequence[Hook]) -> Attached:
    """Count from now on, or go on as attached before. Pins of this layout are kept as they are.

    Raises:
        HostError: This machine cannot do it, or (MissingCapability) not with these privileges.
        NotAttached: Pins of another layout are there.
    """
    probe.require_attachable(probe.look(), pins)
    sha256 = digest(object_file)
    with folder.locked(pins):
        if (pins / folder.META).exists():
            return _kept(pins, sha256)
        folder.remove(pins)  # what a killed attach or detach left
        refused: list[tuple[Hook, str]] = []
        log: list[str] = []
        for plan in hooks.PLANS:
            if plan.hook not in wanted:
                continue
            if plan.missing:
                refused.append((plan.hook, plan.missing))
                continue
            try:
                with libbpf.Object(object_file) as loaded:
                    try:
                        _attach(loaded, plan, sha256, pins)
                    finally:
                        log += loaded.log
            except OSError as error:
                refused.append((plan.hook, _reason(error, log)))
                continue
            return Attached(plan.hook, True, True, tuple(refused), tuple(log))
    reasons = "; ".join(f"{hook}: {why}" for hook, why in refused)
    tail = "".join(f"\n  {line}" for line in log[-_LOG_LINES:])
    raise Refused(
        f"no hook attaches on kernel {os.uname().release}: {reasons}{tail}",
        hint="--log-level debug prints the whole log; please report it with the kernel's release",
        log=log,
    )


def digest(object_file: Path) -> bytes:
    """SHA-256 of the object: what `meta` says of the programs that are attached."""
    return hashlib.sha256(object_file.read_bytes()).digest()


def _kept(pins: Path, sha256: bytes) -> Attached:
    meta = folder.read_meta(pins)
    hook = hooks.named(meta.hook)
    if hook is None:
        raise NotAttached(
            f"{pins} was attached by another version of xpumeter",
            hint="end its counts with `xpumeter detach`, then attach",
        )
    return Attached(hook, False, meta.object_sha256 == sha256)


def _attach(loaded: libbpf.Object, plan: hooks.Plan, sha256: bytes, pins: Path) -> None:
    readers = frozenset(f"read_{name}" for name in hooks.READERS)
    loaded.load(plan.programs | readers | hooks.RETIRERS.keys())
    for slot, program in plan.slots.items():
        loaded.fill_slot(slot, program)
    meta = layout.Meta(
        layout=layout.LAYOUT,
        hook=hooks.number(plan.hook),
        attached_boot_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        lease_ns=0,
        attach_id=os.urandom(16),
        object_sha256=sha256,
        hierarchy=probe.hierarchy(),
    )
    loaded.write("meta", meta.pack())
    links = [loaded.attach(program) for program in plan.attach]
    with folder.building(pins) as place:
        for link in links:
            link.pin(place / f"link_{link.name}")
        for program in sorted(plan.programs):
            loaded.pin_program(program, place / f"prog_{program}")
        for name in hooks.MAPS:
            loaded.pin_map(name, place / f"map_{name}")
        for pin in place.iterdir():
            pin.chmod(_PRIVATE)
        for name, of_map in hooks.RETIRERS.items():
            loaded.attach_reader(name, of_map).pin(place / name)
            (place / name).chmod(_AGENT)
        for name in hooks.READERS:
            loaded.attach_reader(f"read_{name}", name).pin(place / name)
            (place / name).chmod(_PUBLIC)


def why_not_loaded(object_file: Path, plan: hooks.Plan) -> str:
    """Load a hook's programs and let go of them again: the kernel's reason, empty if it takes them.

    Nothing is attached: to attach and detach would make the returns of calls asleep in the driver
    go unseen.
    """
    try:
        with libbpf.Object(object_file) as loaded:
            try:
                loaded.load(plan.programs)
            except OSError as error:
                return _reason(error, loaded.log)
    except OSError as error:
        return str(error.args[1])
    return ""


def detach(pins: Path) -> tuple[str, ...]:
    """Take everything out, this version's or another's; names of what was removed, sorted.

    Raises:
        NotAttached: There is nothing.
        HostError: It may not be removed.
    """
    try:
        with folder.locked(pins):
            removed = folder.remove(pins)
    except OSError as error:
        raise HostError(
            f"{pins} may not be removed: {error.strerror}", hint="run as root"
        ) from error
    if not removed:
        raise NotAttached(f"nothing is attached at {pins}")
    return tuple(removed)


def _reason(error: OSError, log: Sequence[str]) -> str:
    """The kernel's own word, or libbpf's where it says more."""
    for line in log:
        # libbpf skips module BTF silently where it may not read it, and then says only this.
        if "failed to find kernel BTF type ID" in line:
            return "drm_ioctl is not in the kernel's type information (module without BTF?)"
    return str(error.args[1])
