# SPDX-License-Identifier: Apache-2.0
"""The agent's metrics about itself, once: what is exported and what docs/metrics.md says.

Names are those of the semantic conventions where these have one. Two have none that promtool's
linter takes (`process.thread.count` and `process.unix.file_descriptor.count`: it keeps `_count` to
histograms), and are ours instead; and exports are `xpumeter.exports` and `xpumeter.export.time`,
totals, where the conventions have a histogram (`otel.sdk.exporter.operation.duration`).
"""

from xpumeter.export.catalog import Attribute, Instrument, Metric, On, Stability
from xpumeter.hook import Hook

REJECTED = "rejected"
EXPORT_ERROR = Attribute(
    "error.type",
    "On failures only: the status that the Collector answered with (`UNAVAILABLE`), or why it "
    f"could not be asked. `{REJECTED}`: points that it refused in a batch that it took.",
    stability=Stability.STABLE,
)
COMPONENT = "xpumeter.sender"
COMPONENT_TYPE = Attribute(
    "otel.component.type", "What sends the series of containers.", (COMPONENT,)
)
LOSS = Attribute(
    "xpumeter.loss",
    "What could not be done: an `event` not sent (a name comes later); a `thread` without room (a "
    "call without its time); a `cgroup` or `device` without room for its name; an `entry` or "
    "`return` that nobody saw; an `empty_slot` met by a call while programs were exchanged; a "
    "`tenant_row` (a call without its kind) or a `tenant_cgroup` (calls of a container that count "
    "as the pod's) beyond what one tenant may have.",
    (
        *("event", "thread", "cgroup", "device", "entry", "return", "empty_slot"),
        *("tenant_row", "tenant_cgroup"),
    ),
)
PROGRAM = Attribute(
    "xpumeter.program",
    "A missed `return_stub` is a call that was not counted, a missed `entry_stub` one without its "
    "time; the others keep names and threads in order.",
)
HOOK = Attribute("xpumeter.hook", "Where the programs are attached.", tuple(Hook))
VERSION = Attribute("xpumeter.version", "Of the agent.")
OBJECT = Attribute(
    "xpumeter.object",
    "First 12 hex digits of the SHA-256 of the attached BPF object: after an update that of the "
    "version before, until it is attached anew.",
)
CPU_MODE = Attribute("cpu.mode", "Where the time went.", ("user", "system"))
RPC_SYSTEM = Attribute("rpc.system.name", "`grpc`.", ("grpc",))
RPC_METHOD = Attribute(
    "rpc.method",
    "Method of the container runtime's CRI.",
    ("runtime.v1.RuntimeService/ListContainers", "runtime.v1.RuntimeService/ListPodSandbox"),
)
RPC_ERROR = Attribute(
    "error.type",
    "On failures only: the name of the gRPC status (`UNAVAILABLE`), or `malformed` for an answer "
    "that is no CRI message.",
    stability=Stability.STABLE,
)

_COUNTER, _UPDOWN = Instrument.COUNTER, Instrument.UPDOWNCOUNTER
_GAUGE, _HISTOGRAM = Instrument.GAUGE, Instrument.HISTOGRAM


def _own(
    name: str, instrument: Instrument, unit: str, description: str, *attributes: Attribute
) -> Metric:
    return Metric(name, instrument, unit, description, On.AGENT, attributes)


ROW_USAGE = _own("xpumeter.row.usage", _UPDOWN, "{row}", "Rows in the kernel.")
ROW_LIMIT = _own("xpumeter.row.limit", _UPDOWN, "{row}", "Rows that the kernel has room for.")
CALL_REFUSED = _own(
    "xpumeter.call.refused",
    _COUNTER,
    "{call}",
    "Calls without room for a row, of all devices: also in `xpumeter.call.unattributed`.",
)
CALL_MISSING = _own(
    "xpumeter.call.missing",
    _UPDOWN,
    "{call}",
    "By how many calls the kernel's rows, with those that it let go, and its totals differ, either "
    "way: 0, or a fault of xpumeter. After a journal that could not be read: what it had.",
)
LOSSES = _own(
    "xpumeter.losses",
    _COUNTER,
    "{loss}",
    "What the programs could not do; no count is lost by it.",
    LOSS,
)
PROGRAM_MISSED = _own(
    "xpumeter.program.missed",
    _COUNTER,
    "{run}",
    "Runs of a program that the kernel left out, since the program was not through with another "
    "one on that CPU (`recursion_misses`). Absent where the agent cannot know: it takes bpf(2) "
    "once, at the start.",
    PROGRAM,
)
MALFORMED_RECORDS = _own(
    "xpumeter.malformed_records",
    _COUNTER,
    "{record}",
    "Ring records, files of sysfs and answers of the runtime that made no sense: passed over.",
)
OWNER_UNRESOLVED = _own(
    "xpumeter.owner.unresolved",
    _UPDOWN,
    "{owner}",
    "Owners that the container runtime has not named yet.",
)
OWNER_UNRESOLVED_AGE = _own(
    "xpumeter.owner.unresolved_age",
    _GAUGE,
    "s",
    "How long the oldest of them waits. Absent when there is none.",
)
COLLECTION_DURATION = _own(
    "xpumeter.collection.duration",
    _HISTOGRAM,
    "s",
    "Time from reading the kernel to handing a batch over, once a period.",
)
RPC_DURATION = _own(
    "rpc.client.call.duration",
    _HISTOGRAM,
    "s",
    "Calls to the container runtime, and how long they took.",
    RPC_SYSTEM,
    RPC_METHOD,
    RPC_ERROR,
)
EXPORTS = _own(
    "xpumeter.exports", _COUNTER, "{export}", "Batches sent to the Collector.", EXPORT_ERROR
)
EXPORT_TIME = _own(
    "xpumeter.export.time",
    _COUNTER,
    "s",
    "Time from the first try of a batch to its end, added up.",
)
POINTS_EXPORTED = _own(
    "otel.sdk.exporter.metric_data_point.exported",
    _COUNTER,
    "{data_point}",
    "The number of metric data points for which the export has finished, either successful or "
    "failed.",
    COMPONENT_TYPE,
    EXPORT_ERROR,
)
HOOK_INFO = _own("xpumeter.hook.info", _UPDOWN, "1", "1: how calls are counted here.", HOOK)
BUILD_INFO = _own("xpumeter.build.info", _UPDOWN, "1", "1: what runs here.", VERSION, OBJECT)
CPU_TIME = _own("process.cpu.time", _COUNTER, "s", "CPU time of the agent.", CPU_MODE)
MEMORY_USAGE = _own("process.memory.usage", _UPDOWN, "By", "Physical memory of the agent.")
UPTIME = _own("process.uptime", _GAUGE, "s", "Time since the agent started.")
THREAD_USAGE = _own("xpumeter.thread.usage", _UPDOWN, "{thread}", "Threads of the agent.")
FILE_DESCRIPTOR_USAGE = _own(
    "xpumeter.file_descriptor.usage",
    _UPDOWN,
    "{file_descriptor}",
    "Files, sockets and the like that the agent has open.",
)
FILE_DESCRIPTOR_LIMIT = _own(
    "xpumeter.file_descriptor.limit",
    _UPDOWN,
    "{file_descriptor}",
    "How many it may have open.",
)

METRICS = (
    ROW_USAGE,
    ROW_LIMIT,
    CALL_REFUSED,
    CALL_MISSING,
    LOSSES,
    PROGRAM_MISSED,
    MALFORMED_RECORDS,
    OWNER_UNRESOLVED,
    OWNER_UNRESOLVED_AGE,
    COLLECTION_DURATION,
    RPC_DURATION,
    EXPORTS,
    EXPORT_TIME,
    POINTS_EXPORTED,
    HOOK_INFO,
    BUILD_INFO,
    CPU_TIME,
    MEMORY_USAGE,
    UPTIME,
    THREAD_USAGE,
    FILE_DESCRIPTOR_USAGE,
    FILE_DESCRIPTOR_LIMIT,
)

SINCE_ATTACH = frozenset({CALL_REFUSED, LOSSES, PROGRAM_MISSED})
"""Counters that the kernel keeps, so they began when the programs were attached."""

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Borders of the histograms' buckets: those of the conventions for RPCs, thinned out."""
