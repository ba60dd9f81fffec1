# SPDX-License-Identifier: Apache-2.0
"""xpumeter in a guest, as a DaemonSet would run it: attach with privileges, run without any."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from lab.job import Job, Result
from lab.vm import HOST, Vm

CONFIG = "/vm/xpumeter.yaml"
PID = "/run/xpumeter.pid"
START_S = 60  # quiet: 5 s, most of it Python's imports under emulation
STOP_S = 30

# By its path: the shell is busybox, which prefers its own setpriv.
_RUN = f"""\
echo $$ > {PID}
exec /usr/bin/setpriv --bounding-set=-all --inh-caps=-all --no-new-privs \\
	xpumeter run --config {CONFIG}
"""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the agent takes, and what it may: `capabilities` of all its sets, 0 if it has none."""

    rss_mib: float
    cpu_s: float
    threads: int
    capabilities: int


class Agent:
    """xpumeter in a running VM, exporting to the host's `endpoint` each `interval`.

    `receiver` are further keys of `receivers.xpumeter`.
    """

    def __init__(
        self,
        vm: Vm,
        endpoint: str,
        *,
        interval: str = "1s",
        receiver: Mapping[str, str] | None = None,
    ) -> None:
        self._vm = vm
        self._job: Job | None = None
        port = endpoint.rpartition(":")[2]
        configuration = {
            "receivers": {"xpumeter": {"collection_interval": interval, **(receiver or {})}},
            "exporters": {"otlp_grpc": {"endpoint": f"http://{HOST}:{port}"}},
        }
        # JSON is YAML.
        (vm.work / "xpumeter.yaml").write_text(json.dumps(configuration))

    def attach(self) -> str:
        """Attach; what it printed."""
        return _succeed(self._vm.run("xpumeter attach"))

    def detach(self) -> str:
        """Detach; what it printed."""
        return _succeed(self._vm.run("xpumeter detach"))

    def start(self) -> None:
        """Start `xpumeter run` without capabilities, and wait until it has joined the counting."""
        self._job = self._vm.start(_RUN)
        until = time.monotonic() + START_S
        while "event=joined" not in self._job.output:
            if not self._job.running or time.monotonic() > until:
                raise RuntimeError(f"xpumeter run did not start:\n{self._job.output}")
            time.sleep(0.05)

    @property
    def log(self) -> str:
        """What it logged so far."""
        return self._job.output if self._job else ""

    def stop(self) -> str:
        """SIGTERM, and wait for its end; its whole log."""
        assert self._job is not None
        self._vm.run(f"kill -TERM $(cat {PID})")
        return _succeed(self._job.wait(STOP_S))

    def kill(self) -> None:
        """SIGKILL: it gets no chance to say anything."""
        assert self._job is not None
        self._vm.run(f"kill -KILL $(cat {PID})")
        self._job.wait(STOP_S)

    def footprint(self) -> Footprint:
        """Of the running agent, as /proc has it."""
        told = _succeed(self._vm.run(f"cat /proc/$(cat {PID})/status /proc/$(cat {PID})/stat"))
        *status, stat = told.splitlines()
        of = dict(line.split(":", 1) for line in status)
        # utime and stime, in ticks of 1/100 s, after the name in parentheses: proc(5).
        ticks = stat.rpartition(")")[2].split()[11:13]
        return Footprint(
            rss_mib=int(of["VmRSS"].split()[0]) / 1024,
            cpu_s=sum(map(int, ticks)) / 100,
            threads=int(of["Threads"]),
            capabilities=sum(
                int(of[f"Cap{each}"], 16) for each in ("Inh", "Prm", "Eff", "Bnd", "Amb")
            ),
        )


def _succeed(result: Result) -> str:
    if result.rc:
        raise RuntimeError(f"exit code {result.rc}:\n{result.output}")
    return result.output
