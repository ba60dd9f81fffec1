# SPDX-License-Identifier: Apache-2.0
"""Every metric and every attribute, once: what is exported and what docs/metrics.md says."""

from dataclasses import dataclass
from enum import StrEnum

from xpumeter.model.calls import HardwareType, Kind, Reason

SCOPE = "xpumeter"
"""Name of the instrumentation scope."""

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
"""Semantic conventions that the names follow."""


class Instrument(StrEnum):
    """How values of a metric add up. All are cumulative sums in OTLP."""

    COUNTER = "counter"
    UPDOWNCOUNTER = "updowncounter"


class On(StrEnum):
    """Whose Resource a metric is on."""

    SERIES = "(container, device)"
    DEVICE = "device"
    AGENT = "agent"


class Stability(StrEnum):
    """How much of a name is promised."""

    STABLE = "stable"
    DEVELOPMENT = "development"


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a point or of a Resource; `values` is its closed set, empty if open."""

    name: str
    description: str
    values: tuple[str, ...] = ()
    stability: Stability = Stability.DEVELOPMENT


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric, equal to itself only. `unit` is UCUM; `attributes` are those of its points."""

    name: str
    instrument: Instrument
    unit: str
    description: str
    on: On
    attributes: tuple[Attribute, ...] = ()
    stability: Stability = Stability.DEVELOPMENT

    @property
    def monotonic(self) -> bool:
        """Whether the value only rises, so that Prometheus sees a counter."""
        return self.instrument is Instrument.COUNTER


# --- attributes of points ------------------------------------------------------------------------

OTHER_ERROR = "_OTHER"

KIND = Attribute("xpumeter.call.kind", "What the call is for.", tuple(Kind))
ERROR_TYPE = Attribute(
    "error.type",
    "On failures only. The name of the errno (`ENOMEM`), or its number where it has no name; "
    f"`{OTHER_ERROR}`: nobody saw the call return, so its result is not known.",
    stability=Stability.STABLE,
)
FAILED = Attribute(
    "error.type", f"`{OTHER_ERROR}` on failures, else absent.", (OTHER_ERROR,), Stability.STABLE
)
REASON = Attribute("xpumeter.reason", "Why the owner has no series.", tuple(Reason))
PCI_ID = Attribute("xpumeter.device.pci_id", "Vendor and device number: `8086:e20b`.")
NUMA_NODE = Attribute("xpumeter.device.numa_node", "Where the host has such a notion.")
PART_OF = Attribute(
    "xpumeter.device.part_of",
    "PCI address of the whole: the physical function of a virtual one, the card of a partition.",
)
SWITCH = Attribute(
    "xpumeter.device.pci_switch",
    "PCI address of the switch that it is behind: what is behind the same one is near.",
)
NODE_NAMES = {
    "card": Attribute("xpumeter.device.card", "Its primary node below /dev/dri: `card1`."),
    "renderD": Attribute("xpumeter.device.render", "Its render node: `renderD128`."),
    "accel": Attribute("xpumeter.device.accel", "Its node below /dev/accel: `accel0`."),
}
"""By how the node's name begins."""
LOSS = Attribute(
    "xpumeter.loss",
    "What could not be done: an `event` not sent (a name comes later); a `thread` without room (a "
    "call without its time); a `cgroup` or `device` without room for its name; an `entry` or "
    "`return` that nobody saw; an `empty_slot` met by a call while programs were exchanged.",
    ("event", "thread", "cgroup", "device", "entry", "return", "empty_slot"),
)
HOOK = Attribute("xpumeter.hook", "Where the programs are attached.")
CPU_MODE = Attribute("cpu.mode", "Where the time went.", ("user", "system"))

# --- attributes of Resources ---------------------------------------------------------------------

OWNER_ATTRIBUTES = (
    Attribute("k8s.namespace.name", "In pods.", stability=Stability.STABLE),
    Attribute("k8s.pod.name", "In pods.", stability=Stability.STABLE),
    Attribute("k8s.pod.uid", "In pods.", stability=Stability.STABLE),
    Attribute("k8s.container.name", "In pods.", stability=Stability.STABLE),
    Attribute("container.id", "64 hex digits.", stability=Stability.STABLE),
    Attribute("process.linux.cgroup", "Path of the cgroup; outside pods and containers only."),
)
DEVICE_ATTRIBUTES = (
    Attribute("hw.id", "PCI address (`0000:03:00.0`), or platform name."),
    Attribute("hw.type", "From the driver table.", tuple(HardwareType)),
    Attribute("hw.vendor", "Where known."),
    Attribute("hw.model", "Where known."),
    Attribute(
        "xpumeter.driver",
        "Name of the driver table: the DRM name of the driver. Without a table known from the "
        "first call on.",
    ),
)
HOST_ATTRIBUTES = (
    Attribute("host.name", "Name of the host."),
    Attribute("host.id", "Machine id, where readable."),
    Attribute("k8s.node.name", "In Kubernetes.", stability=Stability.STABLE),
)

# --- metrics -------------------------------------------------------------------------------------

_COUNTER, _UPDOWN = Instrument.COUNTER, Instrument.UPDOWNCOUNTER

CALLS = Metric(
    "xpumeter.calls", _COUNTER, "{call}", "Calls that returned.", On.SERIES, (KIND, ERROR_TYPE)
)
CALL_TIME = Metric(
    "xpumeter.call.time",
    _COUNTER,
    "s",
    "Time from entry to return, added up; the time of interrupted calls is part of it.",
    On.SERIES,
    (KIND,),
)
CALL_INTERRUPTED = Metric(
    "xpumeter.call.interrupted",
    _COUNTER,
    "{call}",
    "Returns to a signal, restarted or ended in EINTR: the kernel sees no difference. "
    "They are not in `xpumeter.calls`.",
    On.SERIES,
    (KIND,),
)
CALL_UNATTRIBUTED = Metric(
    "xpumeter.call.unattributed",
    _COUNTER,
    "{call}",
    "Calls whose owner has no series. Without a device: on the host's Resource.",
    On.DEVICE,
    (REASON,),
)
DEVICE_INFO = Metric(
    "xpumeter.device.info",
    _UPDOWN,
    "1",
    "1 for each device that is there, called or not.",
    On.DEVICE,
    (PCI_ID, NUMA_NODE, PART_OF, SWITCH, *NODE_NAMES.values()),
)

ROW_USAGE = Metric("xpumeter.row.usage", _UPDOWN, "{row}", "Rows in the kernel.", On.AGENT)
ROW_LIMIT = Metric(
    "xpumeter.row.limit", _UPDOWN, "{row}", "Rows that the kernel has room for.", On.AGENT
)
CALL_REFUSED = Metric(
    "xpumeter.call.refused",
    _COUNTER,
    "{call}",
    "Calls without room for a row, of all devices: also in `xpumeter.call.unattributed`.",
    On.AGENT,
)
CALL_MISSING = Metric(
    "xpumeter.call.missing",
    _UPDOWN,
    "{call}",
    "Calls that the kernel counted and no row holds: 0, or a fault of xpumeter.",
    On.AGENT,
)
LOSSES = Metric(
    "xpumeter.losses",
    _COUNTER,
    "{loss}",
    "What the programs could not do; no count is lost by it.",
    On.AGENT,
    (LOSS,),
)
RUNTIME_REQUESTS = Metric(
    "xpumeter.runtime.requests",
    _COUNTER,
    "{request}",
    "Requests to the container runtime.",
    On.AGENT,
    (FAILED,),
)
MALFORMED_RECORDS = Metric(
    "xpumeter.malformed_records",
    _COUNTER,
    "{record}",
    "Ring records, files of sysfs and answers of the runtime that made no sense: passed over.",
    On.AGENT,
)
OWNER_UNRESOLVED = Metric(
    "xpumeter.owner.unresolved",
    _UPDOWN,
    "{owner}",
    "Owners that the container runtime has not named yet.",
    On.AGENT,
)
EXPORTS = Metric(
    "xpumeter.exports", _COUNTER, "{export}", "Batches sent to the Collector.", On.AGENT, (FAILED,)
)
HOOK_INFO = Metric(
    "xpumeter.hook.info", _UPDOWN, "1", "1: how calls are counted here.", On.AGENT, (HOOK,)
)
MEMORY_USAGE = Metric(
    "process.memory.usage", _UPDOWN, "By", "Physical memory of the agent.", On.AGENT
)
CPU_TIME = Metric(
    "process.cpu.time", _COUNTER, "s", "CPU time of the agent.", On.AGENT, (CPU_MODE,)
)

METRICS = (
    CALLS,
    CALL_TIME,
    CALL_INTERRUPTED,
    CALL_UNATTRIBUTED,
    DEVICE_INFO,
    ROW_USAGE,
    ROW_LIMIT,
    CALL_REFUSED,
    CALL_MISSING,
    LOSSES,
    RUNTIME_REQUESTS,
    MALFORMED_RECORDS,
    OWNER_UNRESOLVED,
    EXPORTS,
    HOOK_INFO,
    MEMORY_USAGE,
    CPU_TIME,
)
