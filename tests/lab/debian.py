# SPDX-License-Identifier: Apache-2.0
"""Debian packages without installing any: apt with its own state, the host's sources and keys.

An empty status file makes apt resolve a whole closure, libc included, so an unpacked tree runs
whatever the host has.
"""

import datetime
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import unquote

from lab.cache import Cache, digest
from lab.errors import LabError
from lab.progress import step
from lab.sources import host_sources

ETC_APT = Path("/etc/apt")
UNPACKING = Path(__file__)
"""Part of every recipe that unpacks packages."""
MERGED = ("bin", "sbin", "lib", "lib64")


@dataclass(frozen=True, slots=True)
class Deb:
    """One package file as apt would fetch it."""

    name: str
    version: str
    file: str
    sha256: str


def codename() -> str:
    """`bookworm`, `trixie`: the host's Debian."""
    release = dict(
        line.split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )
    return release.get("VERSION_CODENAME", "").strip('"')


class Apt:
    """apt for the host's suite, or for that and its backports, or another `suite` (`sid`).

    `closure()` says what a package needs, `unpack()` lays it into a folder.  Root or not.
    """

    def __init__(self, cache: Cache, *, backports: bool = False, suite: str | None = None) -> None:
        self._cache = cache
        self._suite = codename()
        self._target = suite or (f"{self._suite}-backports" if backports else self._suite)
        self._home = cache.root / f"apt-{self._target}"
        suites = [self._suite, f"{self._suite}-updates", f"{self._suite}-security"]
        extra = [self._target] if self._target != self._suite else []
        self._sources = host_sources(ETC_APT, suites, extra)
        self._debs = cache.root / "debs"
        self._updated = False

    @property
    def mirror(self) -> str:
        """Address of the suite's archive."""
        entries = (line.partition(": ") for line in self._sources.splitlines())
        return next(text.rstrip("/") for name, _, text in entries if name == "Uris")

    def closure(self, packages: Sequence[str]) -> tuple[Deb, ...]:
        """The packages and all they depend on, in the suite's newest versions.

        An answer holds for a week, so that warm runs ask nobody and fixes still arrive.

        Raises:
            LabError: apt does not reach its sources, or a package is not in them.
        """
        week = datetime.date.today().isocalendar()[:2]
        memo = self._home / f"closure-{digest([self._sources, list(packages), week])}.json"
        if memo.exists():
            return tuple(Deb(**deb) for deb in json.loads(memo.read_text()))
        with self._cache.lock(self._home.name):
            self._configure()
            with step(f"apt: {self._target}, {packages[0]}"):
                if not self._updated:
                    self._run("apt-get", "update", "-qq")
                    self._updated = True
                debs = self._resolve(packages)
            partial = memo.with_suffix(".new")
            partial.write_text(json.dumps([asdict(deb) for deb in debs]))
            partial.rename(memo)
        return debs

    def unpack(self, debs: Sequence[Deb], into: Path) -> None:
        """Fetch the packages and lay their files into a folder with merged /usr.

        No maintainer script runs.  What was fetched before is not fetched again.
        """
        (into / "usr").mkdir(exist_ok=True)
        for name in MERGED:
            (into / "usr" / name).mkdir(exist_ok=True)
            if not (into / name).is_symlink():
                (into / name).symlink_to(f"usr/{name}")
        self._fetch(debs)
        for deb in debs:
            # `dpkg-deb -x` would replace the links of a merged /usr by folders.
            packed = ["dpkg-deb", "--fsys-tarfile", str(self._debs / deb.file)]
            files = subprocess.run(packed, stdout=subprocess.PIPE, check=True)
            tar = ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", str(into)]
            subprocess.run(tar, input=files.stdout, check=True)

    def _configure(self) -> None:
        for folder in ("lists/partial", "archives/partial", "sources"):
            (self._home / folder).mkdir(parents=True, exist_ok=True)
        (self._home / "status").write_text("")
        (self._home / "sources/lab.sources").write_text(self._sources)
        (self._home / "apt.conf").write_text(
            f'Dir::State "{self._home}"; Dir::State::lists "{self._home}/lists";\n'
            f'Dir::State::status "{self._home}/status";\n'
            f'Dir::Cache "{self._home}"; Dir::Cache::archives "{self._home}/archives";\n'
            f'Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "{self._home}/sources";\n'
            'APT::Architecture "amd64"; APT::Architectures { "amd64"; };\n'
            # apt's own user could not enter a folder of ours
            'APT::Sandbox::User "root"; Acquire::Languages "none"; Acquire::Retries "3";\n'
            'Acquire::ForceHash "SHA256";\n'
            'APT::Install-Recommends "false"; APT::Update::Error-Mode "any";\n'
        )

    def _resolve(self, packages: Sequence[str]) -> tuple[Deb, ...]:
        # Backports are never taken unless asked for; naming the suite itself would hide its fixes.
        target = ["-t", self._target] if self._target != self._suite else []
        listed = self._run("apt-get", "install", "-y", *target, "--print-uris", *packages)
        return tuple(
            Deb(name, unquote(version), f"{name}_{version}_{arch}.deb", sha256)
            for name, version, arch, sha256 in re.findall(
                r"^'\S+' ([^_\s]+)_([^_\s]+)_(\w+)\.deb \d+ SHA256:(\w+)$", listed, re.MULTILINE
            )
        )

    def _fetch(self, debs: Sequence[Deb]) -> None:
        self._debs.mkdir(exist_ok=True)
        with self._cache.lock("debs"):
            missing = [deb for deb in debs if not self._whole(deb)]
            if not missing:
                return
            wanted = [f"{deb.name}={deb.version}" for deb in missing]
            with step(f"fetch {len(wanted)} packages"):
                self._run("apt-get", "download", "-qq", *wanted, cwd=self._debs)
            for deb in missing:
                if not self._whole(deb):
                    raise LabError(
                        f"{deb.file} did not arrive as apt announced it", hint="try again"
                    )

    def _whole(self, deb: Deb) -> bool:
        path = self._debs / deb.file
        if not path.exists():
            return False
        os.utime(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == deb.sha256

    def _run(self, *argv: str, cwd: Path | None = None) -> str:
        env = {**os.environ, "APT_CONFIG": str(self._home / "apt.conf"), "LC_ALL": "C"}
        done = subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
            raise LabError(
                f"{' '.join(argv[:2])}: {(errors or [done.stderr.strip()])[0]}",
                hint="check the sources and proxy in /etc/apt, then try again",
            )
        return done.stdout
