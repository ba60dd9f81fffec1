# SPDX-License-Identifier: Apache-2.0
"""Names of PCI vendors and devices, from the list that distributions ship (pci.ids)."""

import mmap
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

FILES = (Path("/usr/share/misc/pci.ids"), Path("/usr/share/hwdata/pci.ids"))
"""Where distributions keep it."""

_NEXT_VENDOR = re.compile(rb"\n[^\t#\n]")


def read_names(
    pci_ids: Iterable[str], *, files: Sequence[Path] = FILES, bad: list[Path] | None = None
) -> dict[str, str]:
    """Names by `vendor` and by `vendor:device`, of the first file that is there.

    `pci_ids` are `vendor:device`, lower-case hex. Never raises: what the list lacks is not in the
    answer, and a list that cannot be read is added to `bad`.
    """
    file = next((file for file in files if file.exists()), None)
    if file is None:
        return {}
    devices: dict[str, list[str]] = {}
    for pci_id in pci_ids:
        vendor, _, device = pci_id.partition(":")
        devices.setdefault(vendor, []).append(device)
    names: dict[str, str] = {}
    try:
        # 1.4 MB: searched where it lies, since reading it line by line takes 40 ms.
        with (
            file.open("rb") as opened,
            mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as text,
        ):
            for vendor, wanted in devices.items():
                block = _block(text, vendor)
                if name := _name(block, rb"\A", vendor):
                    names[vendor] = name
                for device in wanted:
                    if name := _name(block, rb"\n\t", device):
                        names[f"{vendor}:{device}"] = name
    except (OSError, ValueError):  # ValueError: an empty file cannot be mapped
        if bad is not None:
            bad.append(file)
    return names


def _block(text: mmap.mmap, vendor: str) -> bytes:
    """The vendor's line and all below it."""
    key = b"\n" + vendor.encode()
    begin = text.find(key)  # never the first line, which is a comment
    while begin >= 0 and text[begin + len(key) : begin + len(key) + 1] not in (b" ", b"\t"):
        begin = text.find(key, begin + 1)
    if begin < 0:
        return b""
    end = _NEXT_VENDOR.search(text, begin + 1)
    return text[begin + 1 : end.start() if end else len(text)]


def _name(block: bytes, before: bytes, number: str) -> str | None:
    # Two blanks in the list; any white space will do. A subsystem's line has two tabs before it.
    found = re.search(before + number.encode() + rb"[ \t]+(\S[^\n]*)", block)
    return found[1].decode(errors="replace").strip() if found else None
