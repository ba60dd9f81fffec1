# SPDX-License-Identifier: Apache-2.0
"""The one place that joins the stages, source -> enrich -> export, and the loop that drives them.

It sleeps until the kernel opens a row, a name is worth asking for again, or a period is over. It
never waits for the Collector (the sender has a thread), nor for the runtime beyond its deadline.
"""

import logging
import math
import select
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from typing import Protocol, Self

from xpumeter import drivers
from xpumeter.callers import Callers
from xpumeter.config import Config, MetricsLevel
from xpumeter.devices import Devices
from xpumeter.enrich.attribute import attribute, missing
from xpumeter.enrich.ledger import Ledger
from xpumeter.errors import HostError
from xpumeter.export.messages import Messages
from xpumeter.export.otlp import Sender
from xpumeter.export.telemetry import Telemetry
from xpumeter.forms import AUTO, NONE
from xpumeter.model.calls import Reason
from xpumeter.model.kernel import Reading
from xpumeter.model.stats import AgentStats
from xpumeter.source import host, layout
from xpumeter.source.cri import Runtime
from xpumeter.source.memory import Memory
from xpumeter.source.pins import Pins
from xpumeter.source.ring import Ring, why_refused

_log = logging.getLogger(__name__)

_FIRST_EXPORT_S = 1.0
"""From the start to the first export: what was counted before is known at once."""

_GATHER_S = 0.5
"""From the first call of a row to the look at it: rows that open together are looked at once, and
the runtime is asked twice a second at most."""

_POLL_S = 1.0
"""Between two looks where no ring wakes."""

_CLOSE_S = 5.0
"""For the last batch."""


class Stop(Protocol):
    """Tells the loop to end."""

    def __bool__(self) -> bool:
        """It is time to stop."""
        ...

    def fileno(self) -> int:
        """Readable once it is time, for select(2)."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Sleep; True if it is time to stop."""
        ...


class Pipeline:
    """Reads, names, exports. Use as a context manager: the last values go out at the end.

    Without `cgroup_v2` nobody is named: on such a host the kernel's ids say nothing of pods.
    """

    def __init__(self, config: Config, pins: Pins, *, cgroup_v2: bool) -> None:
        self._interval_s = config.receiver.collection_interval_s
        self._pins = pins
        self._nobody = Reason.UNKNOWN_CGROUP if cgroup_v2 else Reason.CGROUP_V1
        if not cgroup_v2:
            _log.warning("event=cgroup_v1 consequence='calls have no owner on this host'")
        self._ring = _open_ring(config)
        self._devices = Devices(drivers.load(config.receiver.driver_tables))
        self._runtime = _runtime(config.receiver.runtime_endpoint)
        self._memory = Memory(config.receiver.state, pins.meta.attach_id)
        self._callers = Callers(self._runtime, self._memory)
        self._ledger = Ledger()
        own_version, of_host = version("xpumeter"), host.attributes()
        self._messages = Messages(version=own_version, host=of_host)
        exporter = config.exporter
        headers = dict(exporter.headers)
        self._sender = Sender(exporter.endpoint, headers=headers, timeout_s=exporter.timeout_s)
        self._stats = AgentStats(hook=pins.hook, row_limit=layout.ROW_LIMIT)
        self._telemetry: Telemetry | None = None
        if config.service.telemetry.metrics.level is not MetricsLevel.NONE:
            self._telemetry = Telemetry(
                lambda: self._stats,
                exporter.endpoint,
                version=own_version,
                host=of_host,
                headers=headers,
                timeout_s=exporter.timeout_s,
                interval_s=self._interval_s,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Both at once: a Collector that is away takes the whole deadline of each.
        with ThreadPoolExecutor(1) as beside:
            if self._telemetry:
                beside.submit(self._telemetry.close, deadline_s=_CLOSE_S)
            self._sender.close(deadline_s=_CLOSE_S)
        if self._ring:
            self._ring.close()
        if self._runtime:
            self._runtime.close()

    def run(self, stop: Stop) -> None:
        """Until told to stop, and once more then.

        Raises:
            NotAttached: Somebody detached; what was counted before is in the last batch.
        """
        next_export_s = time.monotonic() + _FIRST_EXPORT_S
        while not stop:
            if self._wait(stop, until_s=min(next_export_s, self._next_look_s())):
                stop.wait(_GATHER_S)
            late_s = time.monotonic() - next_export_s
            if late_s < 0:
                self._look()
            else:
                self._export()
                # On the beat, however long a period took; missed beats are left out.
                next_export_s += self._interval_s * (1 + late_s // self._interval_s)
        self._export(may_ask=False)

    def _wait(self, stop: Stop, *, until_s: float) -> bool:
        """Sleep; True if a row was opened meanwhile."""
        timeout_s = max(0.0, until_s - time.monotonic())
        if self._ring is None:
            stop.wait(timeout_s)
            return False
        select.select([self._ring.fileno(), stop.fileno()], [], [], timeout_s)
        return bool(self._ring.take())

    def _next_look_s(self) -> float:
        asks_s = self._callers.ask_at_s
        if not self._ring:
            return time.monotonic() + _POLL_S
        return math.inf if asks_s is None else asks_s

    def _look(self, *, may_ask: bool = True) -> Reading:
        """Read the kernel, and learn who and what is new."""
        reading = self._pins.read()
        callers = {row.cgroup_id for row in reading.rows}
        self._callers.update(callers, self._pins.cgroups(), may_ask=may_ask)
        self._devices.update({row.device for row in reading.rows}, self._pins.devices)
        return reading

    def _export(self, *, may_ask: bool = True) -> None:
        reading = self._look(may_ask=may_ask)
        attribution = attribute(
            reading,
            self._devices.known,
            self._callers.owners if self._nobody is Reason.UNKNOWN_CGROUP else {},
            self._callers.dead,
            attached_boot_ns=self._pins.meta.attached_boot_ns,
            nobody=self._nobody,
        )
        every_device = {**self._devices.idle, **attribution.devices}
        attribution = replace(attribution, devices=every_device)
        unix_ns = time.time_ns()
        snapshot = self._ledger.update(
            attribution,
            unix_ns=unix_ns,
            boot_to_unix_ns=unix_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        )
        self._sender.send(self._messages.update(snapshot, delivered=self._sender.delivered))
        self._account(reading)

    def _account(self, reading: Reading) -> None:
        lost = missing(reading)
        if lost and not self._stats.missing:
            _log.error("event=calls_missing calls=%d consequence='rows do not add up'", lost)
        runtime = self._runtime
        self._stats = AgentStats(
            rows=len(reading.rows),
            row_limit=layout.ROW_LIMIT,
            refused=sum(total.refused for total in reading.totals),
            losses=reading.losses,
            missing=lost,
            runtime_calls=runtime.calls if runtime else 0,
            runtime_errors=runtime.errors if runtime else 0,
            bad_records=self._bad_records(),
            unresolved=len(self._callers.unresolved),
            exports=self._sender.exports,
            export_failures=self._sender.failures,
            hook=self._pins.hook,
        )

    def _bad_records(self) -> int:
        ring = self._ring.bad_records if self._ring else 0
        runtime = self._runtime.bad_records if self._runtime else 0
        return self._devices.bad + self._memory.bad_records + ring + runtime


def _runtime(endpoint: str) -> Runtime | None:
    if endpoint == NONE:
        return None
    return Runtime(None if endpoint == AUTO else endpoint)


def _open_ring(config: Config) -> Ring | None:
    try:
        return Ring(config.receiver.pins)
    except OSError as error:
        reason = why_refused(error)
    except HostError as error:  # no libbpf: reading rows takes none
        reason = str(error)
    _log.info("event=no_ring reason=%r consequence='rows are read each second'", reason)
    return None
