# SPDX-License-Identifier: Apache-2.0
"""Around the counting: who the callers are, what they call, and who is told."""

import os
import socket
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from xpumeter import drivers, inventory
from xpumeter.config import Config
from xpumeter.destination import OtlpHttp
from xpumeter.errors import RuntimeUnavailable
from xpumeter.export.endpoint import shown
from xpumeter.forms import AUTO, NONE
from xpumeter.model.checks import Check, Status
from xpumeter.source import cri, facts, probe
from xpumeter.source.layout import Hierarchy

_TIMEOUT_S = 2.0
_PORTS = {"http": 80, "https": 443}


def cgroups(root: Path, _: Config) -> Check:
    """Names come from the hierarchy that container runtimes make their cgroups in."""
    chosen = probe.hierarchy(root)
    if chosen is Hierarchy.V1:
        return Check(
            "cgroups",
            Status.WARN,
            "v1 without pids and memory",
            "boot with systemd.unified_cgroup_hierarchy=1: here no pod has a name",
        )
    pods = facts.pod_layout(root)
    found = "v2" if chosen is Hierarchy.V2 else f"v1, names come from {chosen.name.lower()}"
    return Check("cgroups", Status.OK, f"{found}{f', pods by {pods}' if pods else ''}")


def runtime(root: Path, config: Config) -> Check:
    """Names of pods and containers come from its socket."""
    endpoint = config.receiver.runtime_endpoint
    if endpoint == NONE:
        return Check("runtime", Status.OK, "none, as configured: ids of pods and containers only")
    sockets = cri.find_endpoints(root) if endpoint == AUTO else [endpoint]
    if not sockets:
        return Check(
            "runtime",
            Status.WARN,
            "no socket at any of the usual places",
            "mount the runtime's, or name it in receivers.xpumeter.runtime_endpoint; "
            "`none` says that there shall be none",
        )
    asked = cri.Runtime(None if endpoint == AUTO else endpoint, root=root)
    try:
        records = asked.records(())
    except RuntimeUnavailable as error:
        return Check("runtime", Status.WARN, str(error), error.hint)
    finally:
        asked.close()
    containers = sum(not record.sandbox for record in records.values())
    return Check("runtime", Status.OK, f"{', '.join(sockets)}: {containers} containers")


def state(_: Path, config: Config) -> Check:
    """Names of containers that are gone are kept there for the next agent."""
    folder = config.receiver.state
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if os.access(there, os.W_OK | os.X_OK):
        return Check("state", Status.OK, str(folder))
    return Check(
        "state",
        Status.WARN,
        f"{there} may not be written to",
        "a restarted agent would not know the names of containers that are gone by then",
    )


def devices(root: Path, config: Config) -> Check:
    """What there is to count."""
    found = inventory.entries(root / "sys", drivers.load(config.receiver.driver_tables))
    if not found:
        hint = "nothing to do here; the agent idles until a driver brings one"
        return Check("devices", Status.WARN, "none", hint)
    by_driver = Counter(map(_driver, found))
    listed = ", ".join(f"{count} {name}" for name, count in by_driver.items())
    if any(one["driver"] is None and one["sysfs_driver"] for one in found):
        hint = "calls of a driver without a table count as `other`: docs/adding-a-driver.md"
        return Check("devices", Status.WARN, listed, hint)
    return Check("devices", Status.OK, listed)


def _driver(device: inventory.Entry) -> str:
    if device["driver"]:
        return device["driver"]
    if device["sysfs_driver"]:
        return f"{device['sysfs_driver']} (no table)"
    return f"{device['id']} (its first call names the driver)"


def process(root: Path, _: Config) -> Check:
    """What decides on this process's system calls."""
    seccomp = facts.seccomp(root) or "unknown"
    modules = facts.read(root, "sys/kernel/security/lsm") or "not shown here"
    return Check("confinement", Status.OK, f"seccomp {seccomp}; LSMs {modules}")


def collector(_: Path, config: Config) -> Check:
    """Whether somebody listens where the data goes. Nothing is sent."""
    exporter = config.exporter
    if exporter is None:
        return Check("Collector", Status.OK, "none, as configured: there is a page to scrape")
    endpoint = exporter.endpoint
    if isinstance(exporter, OtlpHttp) and exporter.metrics_endpoint:
        endpoint = exporter.metrics_endpoint
    try:
        _connect(endpoint)
    except OSError as error:
        return Check(
            "Collector",
            Status.WARN,
            f"{shown(exporter)}: {error.strerror or error}",
            "counts wait in the kernel; start it, or set the exporter's endpoint",
        )
    return Check("Collector", Status.OK, f"{shown(exporter)} listens")


def _connect(endpoint: str) -> None:
    url = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    if url.scheme == "unix":
        with socket.socket(socket.AF_UNIX) as local:
            local.settimeout(_TIMEOUT_S)
            local.connect(url.path)
        return
    port = url.port or _PORTS.get(url.scheme, 4317)
    socket.create_connection((url.hostname or "localhost", port), _TIMEOUT_S).close()


CHECKS = (cgroups, runtime, state, devices, process, collector)
