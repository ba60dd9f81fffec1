# SPDX-License-Identifier: Apache-2.0
"""A running Prometheus, and what it answers to a query."""

import json
import subprocess
import time
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab.collector import Sample, free_ports, get
from lab.errors import LabError
from lab.prometheus import Prometheus

START_S = 30


class Scraping:
    """A Prometheus with this configuration, ready when the block begins; its data in `folder`."""

    def __init__(self, program: Prometheus, config: Path, folder: Path) -> None:
        (port,) = free_ports(1)
        self._address = f"127.0.0.1:{port}"
        self._log = folder / "prometheus.log"
        self._command = program.command(
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={self._address}",
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        end = time.monotonic() + START_S
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > end:
                self._stop()
                raise LabError(f"Prometheus did not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def query(self, expression: str) -> tuple[Sample, ...]:
        """Result of an instant query now; `name` is empty where the expression has none."""
        found = self._get("/api/v1/query", query=expression)["data"]["result"]
        return tuple(
            Sample(one["metric"].pop("__name__", ""), one["metric"], float(one["value"][1]))
            for one in found
        )

    def _ready(self) -> bool:
        try:
            return bool(get(f"http://{self._address}/-/ready"))
        except OSError:
            return False

    def _get(self, path: str, **query: str) -> Any:
        return json.loads(get(f"http://{self._address}{path}?{urllib.parse.urlencode(query)}"))
