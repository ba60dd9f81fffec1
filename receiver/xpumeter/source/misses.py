# SPDX-License-Identifier: Apache-2.0
"""Runs that the kernel left out because the program was still busy on that CPU: lost calls.

The kernel tells them in a program's information and in the fdinfo of an open program, both of which
take bpf(2) and the right to the pin. An iterator over programs would need neither, but the counts
are per CPU behind a pointer that a BPF program may not follow (decision 23). So the programs are
opened while this process may, and the files are read for as long as it runs.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from xpumeter.errors import HostError
from xpumeter.source import libbpf

_MISSES = re.compile(r"^recursion_misses:\t(\d+)$", re.MULTILINE)


class Misses:
    """The programs pinned in a folder, held open. Where that is refused nothing is known."""

    def __init__(self, pins: Path) -> None:
        self._open: dict[str, int] = {}
        for pin in sorted(pins.glob("prog_*")):
            try:
                self._open[pin.name.removeprefix("prog_")] = libbpf.open_pin(pin)
            except (OSError, HostError):
                continue

    def read(self) -> Mapping[str, int]:
        """Runs left out since attach, by program. Empty where that cannot be known.

        Source: bpf_prog_show_fdinfo() of kernel/bpf/syscall.c, recursion_misses since 5.12.
        """
        found: dict[str, int] = {}
        for program, fd in self._open.items():
            text = Path(f"/proc/self/fdinfo/{fd}").read_text()
            if misses := _MISSES.search(text):
                found[program] = int(misses[1])
        return found

    def close(self) -> None:
        """Let go of the programs."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
