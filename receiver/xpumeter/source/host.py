# SPDX-License-Identifier: Apache-2.0
"""What this host is called, for every Resource that leaves it."""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def attributes(
    environ: Mapping[str, str] = os.environ, *, machine_id: Path = Path("/etc/machine-id")
) -> dict[str, str]:
    """Attributes of the host; what is unknown is absent.

    K8S_NODE_NAME (Downward API, spec.nodeName) says that this is a pod. There the host's name is
    the node's, since a pod has a host name and a machine id of its own.
    """
    if node := environ.get("K8S_NODE_NAME"):
        return {"host.name": node, "k8s.node.name": node}
    found = {"host.name": socket.gethostname()}
    with suppress(OSError):  # minimal systems have none
        found["host.id"] = machine_id.read_text().strip()
    return {name: value for name, value in found.items() if value}
