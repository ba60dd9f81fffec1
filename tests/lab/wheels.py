# SPDX-License-Identifier: Apache-2.0
"""Python packages for the guest: what xpumeter needs at run time, and xpumeter itself."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Container, Iterable
from pathlib import Path

from lab.cache import Cache, content
from lab.errors import LabError
from lab.root import compile_python, python_name

PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
SOURCES = ("receiver", "bpf", "config", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE")


def runtime_site(cache: Cache, root: Path, checkout: Path) -> Path:
    """Xpumeter's dependencies in the locked versions, for the guest's Python; seen as /opt/site."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text())
    locked = pins((checkout / "requirements.lock").read_text())
    wanted = [locked[name] for name in sorted(closure(project["project"]["dependencies"], locked))]
    python = python_name(root)

    def build(into: Path) -> None:
        digits = python.removeprefix("python")
        listed = into.with_suffix(".txt")
        listed.write_text("\n".join(wanted))
        _pip(
            *("install", "--quiet", "--target", into, "--no-compile", "--only-binary", ":all:"),
            *("--implementation", "cp", "--python-version", digits),
            *("--abi", "cp" + digits.replace(".", ""), "--abi", "abi3", "--abi", "none"),
            *(word for platform in PLATFORMS for word in ("--platform", platform)),
            *("--no-deps", "--require-hashes", "-r", listed),
        )
        listed.unlink()
        compile_python(root, into, "opt/site")

    return cache.entry("site", [content(Path(__file__)), wanted, python, root.name], build)


def pins(lock: str) -> dict[str, str]:
    """The lock's requirements, hashes included, by name."""
    blocks = re.findall(r"^[a-z0-9](?:[^\n]*\\\n)*[^\n]*", lock, re.MULTILINE)
    return {block.split("==")[0]: block for block in blocks}


def closure(wanted: Iterable[str], locked: Container[str]) -> set[str]:
    """Names of these requirements and of all that they require, without extras.

    As installed in the environment that runs this, which was made from the same lock.
    """
    found: set[str] = set()
    todo = list(wanted)
    while todo:
        requirement = todo.pop()
        (stem,) = re.findall(r"^[A-Za-z0-9._-]+", requirement)
        name = re.sub(r"[-_.]+", "-", stem).lower()
        if name in locked and name not in found and not re.search(r"\bextra\s*==", requirement):
            found.add(name)
            todo += importlib.metadata.requires(name) or []
    return found


def xpumeter_tree(cache: Cache, root: Path, checkout: Path) -> Path:
    """The checkout's wheel, unpacked; seen as /cache/NAME.  A change of code makes another one."""
    key = [content(Path(__file__), *(checkout / name for name in SOURCES)), root.name]

    def build(into: Path) -> None:
        wheels = into / "wheel"
        _pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", wheels, checkout)
        (wheel,) = wheels.glob("*.whl")
        with zipfile.ZipFile(wheel) as file:
            file.extractall(into)
        wheel.unlink()
        wheels.rmdir()
        compile_python(root, into, f"cache/{into.stem}")

    return cache.entry("app", key, build)


def _pip(*args: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        errors = re.findall(r"^ *(?:ERROR|error): (.*)$", done.stdout, re.MULTILINE)
        raise LabError(
            f"pip {args[0]}: {errors[0] if errors else done.stdout.strip()}",
            hint="check pip's index and proxy, then try again",
        )
