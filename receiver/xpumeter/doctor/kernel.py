# SPDX-License-Identifier: Apache-2.0
"""The kernel: can programs be loaded into it, and see what they need?"""

import re
from pathlib import Path

from xpumeter.model.checks import Check, Status
from xpumeter.source import facts, probe

_TESTED, _FLOOR = (6, 1), (5, 15)


def release(root: Path) -> Check:
    """Old kernels lack what the programs use; a missing piece shows when they load."""
    host = probe.look(root)
    found = re.match(r"(\d+)\.(\d+)", host.kernel)
    number = (int(found[1]), int(found[2])) if found else (0, 0)
    if number >= _TESTED:
        return Check("kernel", Status.OK, host.kernel)
    if number >= _FLOOR:
        hint = "it may work: tested from 6.1 on"
        return Check("kernel", Status.WARN, host.kernel, hint)
    return Check("kernel", Status.FAIL, host.kernel, "xpumeter needs Linux 5.15, better 6.1")


def type_information(root: Path) -> Check:
    """Of the kernel, and of drm where it is a module."""
    host = probe.look(root)
    if not host.kernel_btf:
        return Check(
            "BTF",
            Status.FAIL,
            "no /sys/kernel/btf/vmlinux",
            "a kernel built with CONFIG_DEBUG_INFO_BTF, as distributions build them",
        )
    if host.drm_module_btf:
        return Check("BTF", Status.OK, "kernel, module drm")
    module = (root / "sys/module/drm/initstate").exists()  # built-in code has none
    if module:
        return Check(
            "BTF",
            Status.FAIL,
            "kernel, but not module drm",
            "drm was built without type information (DKMS?): build it beside the kernel's vmlinux",
        )
    return Check("BTF", Status.OK, "kernel")


def lockdown(root: Path) -> Check:
    """Confidentiality takes the helpers away that names are read with."""
    mode = facts.lockdown(root)
    if mode is None:  # securityfs is not mounted in most containers
        return Check("lockdown", Status.UNKNOWN, "not shown here", "look on the host, as root")
    if mode == "confidentiality":
        return Check(
            "lockdown",
            Status.FAIL,
            mode,
            "boot with lockdown=integrity: programs may not read kernel memory as it is",
        )
    return Check("lockdown", Status.OK, mode)


def sysctls(root: Path) -> Check:
    """Two settings that decide who may use bpf(2); neither keeps root from attaching."""
    names = ("kernel.unprivileged_bpf_disabled", "kernel.perf_event_paranoid")
    values = {name: facts.sysctl(root, name) for name in names}
    shown = ", ".join(
        f"{name.removeprefix('kernel.')}={'unknown' if value is None else value}"
        for name, value in values.items()
    )
    return Check("sysctl", Status.OK, shown)


def driver(root: Path) -> Check:
    """Without drm there is nothing to attach to."""
    if probe.look(root).drm:
        return Check("drm", Status.OK, "loaded")
    return Check(
        "drm",
        Status.WARN,
        "not loaded",
        "`run` waits for it; or load the accelerator's driver (modprobe)",
    )


CHECKS = (release, type_information, lockdown, sysctls, driver)
