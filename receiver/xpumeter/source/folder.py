# SPDX-License-Identifier: Apache-2.0
"""The folder of pins: built aside and published by rename, taken away by rename and then emptied.

So nobody sees half of it, and whoever is killed in between leaves something that has another name.
Every change is made under a lock.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xpumeter.errors import HostError, NotAttached, PinsUnusable
from xpumeter.source import layout
from xpumeter.source.hooks import READERS, RETIRERS

META = "meta"
"""Whole folders have this file; the last pin that is made, the first that is read."""


@contextmanager
def locked(pins: Path) -> Iterator[None]:
    """One at a time. The folder above is locked: bpffs holds no ordinary files.

    Raises:
        HostError: There is no folder above, or it may not be opened.
    """
    try:
        fd = os.open(pins.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise HostError(
            f"{pins.parent} cannot be opened: {error.strerror}", hint=f"mkdir -p {pins.parent}"
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def building(pins: Path) -> Iterator[Path]:
    """A folder to pin into; it becomes `pins` at the end of the block, or goes away with an error.

    bpffs takes no names with a dot.
    """
    aside = pins.with_name(f"{pins.name}_new")
    aside.mkdir()
    aside.chmod(0o755)  # mkdir's mode is cut by the umask
    try:
        yield aside
        aside.rename(pins)
    except BaseException:
        _empty(aside)
        raise


def remove(pins: Path) -> list[str]:
    """Take away the pins and whatever a killed process left beside them; what was there, sorted.

    Raises:
        HostError: Something else lies there; then nothing is touched.
    """
    old, new = pins.with_name(f"{pins.name}_old"), pins.with_name(f"{pins.name}_new")
    names = [name for folder in (pins, old, new) for name in _ours(folder)]
    _empty(old)
    if pins.exists():
        pins.rename(old)
    _empty(old)
    _empty(new)
    return sorted(names)


def _ours(folder: Path) -> list[str]:
    """Names in a folder of pins, none if it is not there."""
    if not folder.exists():
        return []
    names = [pin.name for pin in folder.iterdir()]
    for name in names:
        ours = name in READERS or name in RETIRERS or name.startswith(("link_", "prog_", "map_"))
        if not ours:
            raise HostError(
                f"{folder / name} is not of xpumeter: nothing was removed",
                hint="let receivers.xpumeter.pins be a folder of its own in a BPF file system",
            )
    return names


def _empty(folder: Path) -> None:
    if folder.exists():
        for pin in folder.iterdir():
            pin.unlink()
        folder.rmdir()


def read_meta(pins: Path) -> layout.Meta:
    """What these pins are.

    Raises:
        NotAttached: There are none.
        PinsUnusable: They cannot be read, or they are of another layout.
    """
    try:
        meta = layout.decode_meta((pins / META).read_bytes())
    except FileNotFoundError:
        raise NotAttached(
            f"nothing is attached at {pins}", hint="run `xpumeter attach` as root"
        ) from None
    except OSError as error:
        raise PinsUnusable(
            f"{pins} cannot be read: {error.strerror}",
            hint="give this user the right to enter the folder and to read its files",
        ) from error
    if meta is None or meta.layout != layout.LAYOUT:
        found = meta.layout if meta else "none"
        raise PinsUnusable(
            f"{pins} has layout {found}, this version reads {layout.LAYOUT}",
            hint="end its counts with `xpumeter detach`, then attach",
        )
    return meta
