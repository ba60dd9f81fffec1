# SPDX-License-Identifier: Apache-2.0
"""Counting: is it attached, could it be, may it be read?"""

import time
from pathlib import Path

from xpumeter import data_files
from xpumeter.errors import HostError, NotAttached, PinsUnusable
from xpumeter.model.checks import Check, Status
from xpumeter.source import attach, facts, hooks, libbpf, probe
from xpumeter.source.pins import Pins
from xpumeter.source.ring import Ring, why_refused

_NOT_TRIED = (
    "loads; attaching is left to `attach`, which makes calls asleep in the driver go unseen"
)


def privileges(root: Path, pins: Path) -> Check:
    """What attaching needs, and what this process has of it."""
    held = ", ".join(facts.held(root)) or "none of those that attaching needs"
    missing = probe.look(root).missing
    if not missing:
        return Check("capabilities", Status.OK, held)
    if _attached(pins):
        return Check("capabilities", Status.OK, f"{held}; attached already, so none is needed")
    wanted = ", ".join(missing)
    return Check(
        "capabilities", Status.WARN, f"{held}; missing {wanted}", "run `xpumeter attach` as root"
    )


def bpffs(root: Path, pins: Path) -> Check:
    """What is attached is kept there."""
    if probe.is_bpffs(pins.parent, mounts=root / "proc/self/mounts"):
        return Check("bpffs", Status.OK, str(pins.parent))
    return Check(
        "bpffs",
        Status.FAIL,
        f"{pins.parent} is not in a BPF file system",
        f"mount -t bpf bpf {pins.parent}; in a pod mount the host's, of type hostPath",
    )


def attached(_: Path, pins: Path) -> Check:
    """What counts now, and since when."""
    try:
        meta = Pins(pins).meta
    except PinsUnusable as unusable:
        return Check("attached", Status.UNKNOWN, str(unusable), unusable.hint)
    except NotAttached as nothing:
        return Check("attached", Status.WARN, str(nothing), nothing.hint)
    age_s = (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - meta.attached_boot_ns) / 1e9
    found = f"{hooks.named(meta.hook)}, for {_span(age_s)}"
    object_file = data_files.find("xpumeter.bpf.o")
    if attach.digest(object_file) != meta.object_sha256:
        hint = "another version's programs count: `xpumeter detach` and `attach` take this one's"
        return Check("attached", Status.WARN, found, hint)
    return Check("attached", Status.OK, found)


def hook(root: Path, pins: Path) -> Check:
    """Whether the programs of the best hook load: the kernel's own word where they do not.

    Only where nothing is attached and this process may: loading leaves nothing behind.
    """
    for plan in hooks.PLANS:
        if plan.missing:
            continue
        if _attached(pins):
            return Check("hook", Status.OK, f"{plan.hook}: attached")
        host = probe.look(root)
        if not host.drm:
            return Check("hook", Status.UNKNOWN, f"{plan.hook}: not tried while drm is not loaded")
        if missing := host.missing:
            found = f"{plan.hook}: not tried without {', '.join(missing)}"
            return Check("hook", Status.UNKNOWN, found, "run doctor as root")
        if reason := attach.why_not_loaded(data_files.find("xpumeter.bpf.o"), plan):
            hint = "`xpumeter attach --log-level debug` says more"
            return Check("hook", Status.FAIL, f"{plan.hook}: {reason}", hint)
        return Check("hook", Status.OK, f"{plan.hook}: {_NOT_TRIED}")
    return Check("hook", Status.FAIL, "none", "this version has no hook for any kernel")


def ring(root: Path, pins: Path) -> Check:
    """Whether first calls wake the agent, or it looks each second."""
    if not _attached(pins):
        return Check("ring", Status.UNKNOWN, "nothing is attached")
    try:
        Ring(pins).close()
    except OSError as error:
        return Check(
            "ring",
            Status.WARN,
            f"{why_refused(error)} (seccomp: {facts.seccomp(root) or 'unknown'})",
            "nothing is lost: rows are read each second instead of at once",
        )
    return Check("ring", Status.OK, "first calls wake the agent")


def library(_: Path, pins: Path) -> Check:
    """Programs are loaded by libbpf; rows are read without it."""
    try:
        libbpf.require()
    except HostError as absent:
        status = Status.WARN if _attached(pins) else Status.FAIL
        return Check("libbpf", status, str(absent), absent.hint)
    return Check("libbpf", Status.OK, "found")


def _attached(pins: Path) -> bool:
    try:
        Pins(pins)
    except NotAttached:
        return False
    return True


def _span(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


CHECKS = (privileges, bpffs, library, hook, attached, ring)
