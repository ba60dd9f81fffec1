# SPDX-License-Identifier: Apache-2.0
"""The cache: folders named by what they were made of, whole or not there at all."""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.progress import step

KEPT_UNUSED_S = 30 * 24 * 3600


def cache_root() -> Path:
    """Where the lab keeps what it made: XPUMETER_CACHE, else `xpumeter` in the user's cache."""
    if given := os.environ.get("XPUMETER_CACHE"):
        return Path(given).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "xpumeter"


def digest(value: object) -> str:
    """Sixteen hex digits that stand for a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def content(*paths: Path) -> str:
    """Digest of files, and of all files below folders, but not of what is built there.

    A recipe passes its own `__file__` too: a changed recipe makes another thing.
    """
    found = []
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            generated = {"__pycache__", "build"} & set(
                file.relative_to(path.parent).parts
            ) or "_pb2.py" in file.name
            if file.is_file() and not generated:
                name = str(file.relative_to(path.parent))
                found.append((name, hashlib.sha256(file.read_bytes()).hexdigest()))
    return digest(found)


class Cache:
    """Folders by name and key.  Safe to use from several processes at once.

    An entry is built in a folder beside it and renamed when whole, so an interrupted build leaves
    nothing that looks finished and the next run goes on with the first missing entry.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold a lock of this name; waits for whoever has it."""
        path = self.root / "locks" / name
        path.parent.mkdir(exist_ok=True)
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def entry(self, name: str, key: object, build: Callable[[Path], None]) -> Path:
        """Folder `name-KEY`, built by `build(folder)` if it is not there yet."""
        path = self.root / f"{name}-{digest(key)}"
        if not path.exists():
            with self.lock(path.name):
                if not path.exists():
                    partial = path.with_name(path.name + ".partial")
                    shutil.rmtree(partial, ignore_errors=True)
                    partial.mkdir()
                    with step(name):
                        build(partial)
                    partial.rename(path)
        os.utime(path)
        return path

    def prune(self) -> None:
        """Remove what nobody used for thirty days: entries and fetched packages."""
        limit = time.time() - KEPT_UNUSED_S
        entries = self.root.glob("*-" + "[0-9a-f]" * 16 + "*")
        for path in [*entries, *self.root.glob("debs/*.deb")]:
            if path.stat().st_mtime < limit:
                with self.lock(path.name):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
