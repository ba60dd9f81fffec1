# SPDX-License-Identifier: Apache-2.0
"""The small files and links in a folder of sysfs."""

from pathlib import Path


class Attributes:
    """Those of one folder. What is not there is None; what is wrong is None and in `bad`."""

    def __init__(self, folder: Path, bad: list[Path] | None = None) -> None:
        self.folder = folder
        self._bad = [] if bad is None else bad

    def text(self, name: str) -> str | None:
        """The file without white space around it."""
        try:
            return (self.folder / name).read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            return None
        except OSError:
            self.complain(name)
            return None

    def integer(self, name: str) -> int | None:
        """A number, decimal."""
        text = self.text(name)
        try:
            return None if text is None else int(text)
        except ValueError:
            self.complain(name)
            return None

    def properties(self, name: str) -> dict[str, str]:
        """Lines of `KEY=value`; empty values are left out."""
        lines = (self.text(name) or "").splitlines()
        pairs = (line.partition("=") for line in lines)
        return {key: value for key, _, value in pairs if value}

    def link(self, name: str) -> str | None:
        """Name of what the link leads to."""
        try:
            return (self.folder / name).readlink().name
        except OSError:
            return None

    def complain(self, name: str) -> None:
        """Count the file as one that makes no sense."""
        self._bad.append(self.folder / name)
