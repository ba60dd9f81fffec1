# SPDX-License-Identifier: Apache-2.0
"""docs/adding-a-driver.md is true: its files are written, its commands run, its output compared."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.cache import Cache, cache_root
from lab.errors import LabError
from lab.headers import newest
from lab.require import require
from xpumeter import cli

pytestmark = pytest.mark.layout

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs/adding-a-driver.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANYTHING = "[...]"


@dataclass(frozen=True, slots=True)
class Step:
    """One block of the page: a file to write, or one command and what it prints."""

    file: str = ""
    command: str = ""
    text: str = ""


def steps(page: str) -> Iterator[Step]:
    """Files and commands, in the page's order."""
    for language, text in BLOCK.findall(page):
        if language == "yaml" and (name := re.match(r"# (\S+\.yaml)\n", text)):
            yield Step(file=name[1], text=text)
        elif language == "console":
            for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                yield Step(command=command, text=output)


def fits(printed: str, expected: str) -> bool:
    """Equal, where `[...]` stands for anything, lines too."""
    pattern = re.escape(expected).replace(re.escape(ANYTHING) + "\\\n", r"(.*\n)*")
    pattern = pattern.replace(re.escape(ANYTHING), r".*")
    return re.fullmatch(pattern, printed) is not None


def run(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints, output first; `xpumeter` runs in this process."""
    program, *arguments = shlex.split(command)
    if program != "xpumeter":
        subprocess.run([program, *arguments], check=True)
        return ""
    cli.main(arguments)
    printed = capsys.readouterr()
    return printed.out + printed.err


def test_the_walk_through_is_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a device without kinds to a table of its own, word for word."""
    try:
        include, *more = newest(Cache(cache_root())).folders
    except (LabError, OSError) as error:
        require("layout", False, str(error))
        raise
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    (tmp_path / "odroid.txt").symlink_to(CHECKOUT / "tests/hosts/exynos.txt")
    (tmp_path / "linux/usr").mkdir(parents=True)
    (tmp_path / "linux/usr/include").symlink_to(include)
    monkeypatch.setenv("C_INCLUDE_PATH", ":".join(map(str, more)))  # `asm/`, apart in Debian's
    ran = 0

    for step in steps(PAGE.read_text()):
        if step.file:
            (tmp_path / step.file).write_text(step.text)
            continue
        printed = run(step.command, capsys)
        assert fits(printed, step.text), f"$ {step.command}\n{printed}"
        ran += 1

    assert ran >= 7


def test_the_comparison_is_strict() -> None:
    """`[...]` is a part of a line, or lines; nothing else may differ."""
    assert fits("a\nb\nc\n", "a\n[...]\nc\n")
    assert fits("a bb c\n", "a [...] c\n")
    assert not fits("a\nb\nc\n", "a\nc\n")
    assert not fits("a\nb\n", "a\n[...] c\n")
