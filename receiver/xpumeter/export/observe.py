# SPDX-License-Identifier: Apache-2.0
"""What is behind each of the agent's own metrics that is asked for: its statistics, and /proc."""

import os
import resource
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from opentelemetry.metrics import Observation

from xpumeter.export import catalog, own
from xpumeter.model.stats import AgentStats

Observe = Callable[[AgentStats], Iterable[Observation]]


def _plain(field: str) -> Observe:
    return lambda stats: [Observation(getattr(stats, field))]


def _exports(stats: AgentStats) -> Iterable[Observation]:
    """Failures have an `error.type`, on the same counter; their share is their quotient."""
    if done := stats.exports:
        yield Observation(max(0, done.exports - done.failed))
        yield from _failed(done.failures)


def _export_time(stats: AgentStats) -> Iterable[Observation]:
    if stats.exports and stats.exports.duration_s:
        yield Observation(stats.exports.duration_s)


def _points(stats: AgentStats) -> Iterable[Observation]:
    done = stats.exports
    if not done or not (done.points or done.failed_points):
        return
    component = {own.COMPONENT_TYPE.name: own.COMPONENT}
    yield Observation(done.points - done.rejected_points, component)
    yield from _failed(done.failed_points, **component)
    if done.rejected_points:
        yield from _failed({own.REJECTED: done.rejected_points}, **component)


def _failed(causes: Mapping[str, int], **attributes: str) -> Iterable[Observation]:
    for cause, count in causes.items():
        yield Observation(count, {**attributes, own.EXPORT_ERROR.name: cause})


def _losses(stats: AgentStats) -> Iterable[Observation]:
    losses = stats.losses
    for loss, count in (
        ("event", losses.events),
        ("thread", losses.threads),
        ("cgroup", losses.cgroups),
        ("device", losses.devices),
        ("entry", losses.entries),
        ("return", losses.returns),
        ("empty_slot", losses.empty_slots),
        ("tenant_row", losses.tenant_rows),
        ("tenant_cgroup", losses.tenant_cgroups),
    ):
        yield Observation(count, {own.LOSS.name: loss})


def _missed(stats: AgentStats) -> Iterable[Observation]:
    for program, runs in stats.missed.items():
        yield Observation(runs, {own.PROGRAM.name: program})


def _unresolved_age(stats: AgentStats) -> Iterable[Observation]:
    if stats.unresolved_age_s is not None:
        yield Observation(stats.unresolved_age_s)


def _hook(stats: AgentStats) -> Iterable[Observation]:
    if stats.hook:
        yield Observation(1, {own.HOOK.name: stats.hook})


def _build(stats: AgentStats) -> Iterable[Observation]:
    if stats.version:
        yield Observation(
            1, {own.VERSION.name: stats.version, own.OBJECT.name: stats.object_sha256[:12]}
        )


def _memory(_stats: AgentStats) -> Iterable[Observation]:
    resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
    yield Observation(resident_pages * resource.getpagesize())


def _cpu(_stats: AgentStats) -> Iterable[Observation]:
    times = os.times()
    yield Observation(times.user, {own.CPU_MODE.name: "user"})
    yield Observation(times.system, {own.CPU_MODE.name: "system"})


def _stat(place: int) -> int:
    """A field of /proc/self/stat, by its number in proc(5); from the third on."""
    # The name in parentheses may have anything in it.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[place - 3])


def _uptime(_stats: AgentStats) -> Iterable[Observation]:
    started_s = _stat(22) / os.sysconf("SC_CLK_TCK")
    yield Observation(time.clock_gettime(time.CLOCK_BOOTTIME) - started_s)


def _threads(_stats: AgentStats) -> Iterable[Observation]:
    yield Observation(_stat(20))


def _files(_stats: AgentStats) -> Iterable[Observation]:
    yield Observation(
        sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1
    )  # less the one that lists


def _file_limit(_stats: AgentStats) -> Iterable[Observation]:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY:
        yield Observation(limit)


OBSERVED: Mapping[catalog.Metric, Observe] = {
    own.ROW_USAGE: _plain("rows"),
    own.ROW_LIMIT: _plain("row_limit"),
    own.CALL_REFUSED: _plain("refused"),
    own.CALL_MISSING: _plain("missing"),
    own.LOSSES: _losses,
    own.PROGRAM_MISSED: _missed,
    own.MALFORMED_RECORDS: _plain("bad_records"),
    own.OWNER_UNRESOLVED: _plain("unresolved"),
    own.OWNER_UNRESOLVED_AGE: _unresolved_age,
    own.EXPORTS: _exports,
    own.EXPORT_TIME: _export_time,
    own.POINTS_EXPORTED: _points,
    own.HOOK_INFO: _hook,
    own.BUILD_INFO: _build,
    own.CPU_TIME: _cpu,
    own.MEMORY_USAGE: _memory,
    own.UPTIME: _uptime,
    own.THREAD_USAGE: _threads,
    own.FILE_DESCRIPTOR_USAGE: _files,
    own.FILE_DESCRIPTOR_LIMIT: _file_limit,
}
"""The callbacks; what is not here is recorded as it happens."""
