# SPDX-License-Identifier: Apache-2.0
"""A running Collector, and what it shows to Prometheus."""

import contextlib
import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from lab.errors import LabError

START_S = 30
STOP_S = 10

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)(?: \d+)?")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of Prometheus text."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse(text: str) -> tuple[Sample, ...]:
    """Samples of Prometheus text, in its order; ValueError names the line that is none."""
    return tuple(
        _sample(number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line and not line.startswith("#")
    )


def _sample(number: int, line: str) -> Sample:
    found = _SAMPLE.fullmatch(line)
    if found is None:
        raise ValueError(f"line {number} is no sample: {line!r}")
    labels: dict[str, str] = {}
    rest = found["labels"] or ""
    while rest:
        label = _LABEL.match(rest)
        if label is None or label[1] in labels:
            raise ValueError(f"line {number} has no such labels: {rest!r}")
        labels[label[1]] = re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], label[2])
        rest = rest[label.end() :]
    return Sample(found["name"], labels, float(found["value"]))


class Collector:
    """A Collector on free ports of the loopback, healthy when the block begins.

    `configs` are files whose endpoints come from the environment, as those in otel-collector/;
    `environment` is what they want besides. Its log goes to `folder`. No process is left behind.

    Attributes:
        otlp_endpoint: `http://127.0.0.1:PORT`, OTLP over gRPC.
        prometheus_url: What a scrape asks for.
        kubenpu_url: What a scrape asks for, of kubenpu-names.yaml.
    """

    def __init__(
        self,
        program: Path,
        configs: Path | Sequence[Path],
        folder: Path,
        *,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._program = program
        self._configs = [configs] if isinstance(configs, Path) else list(configs)
        self._log = folder / "collector.log"
        otlp, prometheus, kubenpu, health = free_ports(4)
        self._environment = {
            "OTLP_ENDPOINT": f"127.0.0.1:{otlp}",
            "PROMETHEUS_ENDPOINT": f"127.0.0.1:{prometheus}",
            "KUBENPU_ENDPOINT": f"127.0.0.1:{kubenpu}",
            "HEALTH_ENDPOINT": f"127.0.0.1:{health}",
            **environment,
        }
        self.otlp_endpoint = f"http://127.0.0.1:{otlp}"
        self.prometheus_url = f"http://127.0.0.1:{prometheus}/metrics"
        self.kubenpu_url = f"http://127.0.0.1:{kubenpu}/metrics"
        self._health_url = f"http://127.0.0.1:{health}/"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, again on the same ports, and wait until it is healthy."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, *(word for one in self._configs for word in ("--config", one))],
                env=dict(os.environ) | self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until = time.monotonic() + START_S
        while not self._healthy():
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise LabError(f"the Collector did not start:\n{self.log[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it; nothing happens if it is not running."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def log(self) -> str:
        """What it has logged so far, over all its starts."""
        return self._log.read_text(errors="replace")

    @property
    def rss_bytes(self) -> int:
        """Its physical memory."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) * 1024 if found else 0

    def text(self) -> str:
        """What Prometheus would read."""
        return get(self.prometheus_url).decode()

    def scrape(self) -> tuple[Sample, ...]:
        """The same, parsed."""
        return parse(self.text())

    def scrape_kubenpu(self) -> tuple[Sample, ...]:
        """What is under the names of KubeNPU."""
        return parse(get(self.kubenpu_url).decode())

    def _healthy(self) -> bool:
        try:
            return bool(get(self._health_url))
        except OSError:
            return False


def get(url: str) -> bytes:
    """What is at a URL of the loopback; OSError if nobody answers."""
    # No proxy, whatever the environment says: this is the loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        body: bytes = answer.read()
    return body


def free_ports(count: int) -> Iterator[int]:
    """Ports that nobody listens on now, each another one."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            port: int = listener.getsockname()[1]
            yield port
