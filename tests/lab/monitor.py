# SPDX-License-Identifier: Apache-2.0
"""QEMU's monitor of a running guest: devices are plugged and unplugged through it."""

import json
import socket
from pathlib import Path
from typing import Any, Self

from lab.errors import LabError

LIMIT_S = 60


class Monitor:
    """A connection to the socket of a VM, as a context manager (QEMU's docs/interop/qmp-spec)."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT_S)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile()
        self._lines.readline()  # its greeting
        self._do("qmp_capabilities")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()

    def plug(self, driver: str, *, bus: str, name: str) -> None:
        """Plug a device into a port; the guest finds it in its own time."""
        self._do("device_add", driver=driver, bus=bus, id=name)

    def unplug(self, name: str) -> None:
        """Ask the guest for a device, which it lets go in its own time.

        The event DEVICE_DELETED never comes for a display: a console of QEMU's keeps it. So the
        guest must be asked whether it is gone, and a name is used once.
        """
        self._do("device_del", id=name)

    def _do(self, command: str, **arguments: str) -> Any:
        request = {"execute": command, "arguments": arguments}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while True:
            said = json.loads(self._lines.readline())
            if "error" in said:
                raise LabError(f"{command}: {said['error']['desc']}")
            if "return" in said:
                return said["return"]
