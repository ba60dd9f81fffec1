# SPDX-License-Identifier: Apache-2.0
"""`xpumeter run`: count first, give up every privilege, then name and export until told to stop.

The order is the point. Counting begins before gRPC and YAML's weight are imported, and nothing that
talks to the network ever holds a capability.
"""

import logging
import os
import select
import signal
import sys
from pathlib import Path

from xpumeter import config, data_files, drivers
from xpumeter.config import Config
from xpumeter.errors import DriverNotLoaded, MissingCapability, NotAttached, PinsUnusable
from xpumeter.source import attach, privileges
from xpumeter.source.misses import Misses
from xpumeter.source.pins import Pins

_log = logging.getLogger(__name__)

_RETRY_S = 5.0


class Stop:
    """Set by SIGTERM and SIGINT; waiting for it is how the agent sleeps.

    The signal is a byte in a pipe. So it wakes a wait that begins a moment after it came, which a
    flag alone would not; and the handler takes no lock, which a wait might be holding.
    """

    def __init__(self) -> None:
        self._told = False
        self._pipe, into = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(into, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._tell)

    def _tell(self, *_: object) -> None:
        self._told = True

    def __bool__(self) -> bool:
        return self._told

    def fileno(self) -> int:
        """Readable once it is time to stop, for select(2)."""
        return self._pipe

    def wait(self, timeout_s: float) -> bool:
        """Sleep; True if it is time to stop."""
        select.select([self], [], [], max(0.0, timeout_s))
        return self._told


def main(config_file: Path | None, *, log_level: str | None) -> int:
    """Run until SIGTERM or SIGINT; the exit code. `log_level` comes before the configuration's.

    Raises:
        ConfigError, HostError: Before anything is exported.
        NotAttached: Somebody detached meanwhile.
    """
    settings = config.load(config_file)
    logging.basicConfig(
        stream=sys.stderr,
        level=(log_level or settings.service.telemetry.logs.level).upper(),
        format="ts=%(asctime)s level=%(levelname)s %(message)s",
    )
    # The user's own: what is wrong with it must not leave programs attached that nobody reads.
    if settings.receiver.driver_tables:
        drivers.load(settings.receiver.driver_tables)
    if settings.exporter and settings.exporter.tls.has_files:
        from xpumeter.export import tls  # brings OpenSSL

        tls.context(settings.exporter.tls)
    stop = Stop()
    pins = count(settings, stop)
    if pins is None:
        return 0
    misses = Misses(settings.receiver.pins)  # opens with the capabilities, reads without
    privileges.drop_all()

    from xpumeter.pipeline import Pipeline  # brings gRPC, and threads: after the capabilities

    with Pipeline(settings, pins, misses=misses) as pipeline:
        pipeline.run(stop)
    return 0


def count(settings: Config, stop: Stop) -> Pins | None:
    """Attach, or join what is attached; None if told to stop while waiting for a driver.

    Raises:
        HostError: It cannot be done here, or MissingCapability with nothing attached before.
    """
    receiver = settings.receiver
    told = False
    while True:
        try:
            done = attach.attach(data_files.find("xpumeter.bpf.o"), receiver.pins, receiver.hooks)
        except MissingCapability as lacking:
            return _join(receiver.pins, lacking)
        except DriverNotLoaded as absent:
            if not told:
                _log.warning("event=waiting reason=%r retry_s=%g", str(absent), _RETRY_S)
                told = True
            if stop.wait(_RETRY_S):
                return None
            continue
        _log.info(
            "event=attached hook=%s now=%s this_version=%s",
            done.hook,
            done.fresh,
            done.same_object,
        )
        return Pins(receiver.pins)


def _join(pins: Path, lacking: MissingCapability) -> Pins:
    """What somebody else attached, which takes no capability."""
    try:
        found = Pins(pins)
    except PinsUnusable:  # says itself what to do
        raise
    except NotAttached as nothing:
        raise MissingCapability(f"{nothing}, and {lacking}", hint=lacking.hint) from nothing
    _log.info("event=joined hook=%s pins=%s", found.hook, pins)
    return found
