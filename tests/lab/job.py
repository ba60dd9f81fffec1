# SPDX-License-Identifier: Apache-2.0
"""Shell commands in a running guest: start one, wait for it, read what it said.

A job is a folder below the VM's `work` share (guest/main.sh is the other side), so any process
that knows the VM's folder can give one, and several may run at once.
"""

import itertools
import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.errors import VmGone

POLL_S = 0.03
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Result:
    """How a job ended: exit status, and standard output and error as one text."""

    rc: int
    output: str


class JobTimeout(Exception):  # noqa: N818 (TimeoutError is the base of something else)
    """The job did not end in time and was killed; the message has its output so far."""


class Job:
    """A command that runs in the guest."""

    def __init__(self, folder: Path, command: str, alive: Callable[[], bool]) -> None:
        self._folder = folder
        self._command = command
        self._alive = alive

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return not (self._folder / "rc").exists()

    @property
    def output(self) -> str:
        """What it said so far."""
        file = self._folder / "output"
        return file.read_text(errors="replace") if file.exists() else ""

    def wait(self, timeout_s: float = 60) -> Result:
        """Its result.

        Raises:
            JobTimeout: it did not end in time; it is killed.
            VmGone: the guest ended first.
        """
        end = time.monotonic() + timeout_s
        while self.running:
            if not self._alive():
                raise VmGone(f"the VM ended during `{self._command}`", hint=self.output[-2000:])
            if time.monotonic() > end:
                self.signal("KILL")
                raise JobTimeout(f"{timeout_s:.0f} s: {self._command}\n{self.output[-4000:]}")
            time.sleep(POLL_S)
        return Result(int((self._folder / "rc").read_text()), self.output)

    def signal(self, name: str) -> None:
        """Send a signal (`TERM`, `KILL`) to the job and all that it started."""
        pid = self._folder / "pid"
        while not pid.exists() and self._alive():
            time.sleep(POLL_S)
        group = pid.read_text().strip()
        start_job(self._folder.parents[1], f"kill -{name} -{group}", self._alive).wait(30)


def start_job(work: Path, command: str, alive: Callable[[], bool], **variables: str) -> Job:
    """Give a shell command, with these variables in its environment, to the guest of `work`.

    Raises:
        VmGone: no guest listens there.
    """
    name = f"{os.getpid()}-{next(_numbers)}"
    folder = work / "jobs" / name
    folder.mkdir(parents=True)
    exports = "".join(f"export {key}={shlex.quote(text)}\n" for key, text in variables.items())
    (folder / "command").write_text(f"{exports}cd /\n{command}\n")
    try:
        port = os.open(work / "port.in", os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        raise VmGone("no VM takes jobs here", hint="start one: make vm") from error
    try:
        os.write(port, f"{name}\n".encode())
    finally:
        os.close(port)
    return Job(folder, command, alive)
