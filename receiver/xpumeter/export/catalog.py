# SPDX-License-Identifier: Apache-2.0
"""Metrics and attributes of containers and devices, once: what is exported and documented."""

from dataclasses import dataclass
from enum import StrEnum

from xpumeter.model.calls import HardwareType, Kind, Reason

SCOPE = "xpumeter"
"""Name of the instrumentation scope."""

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
"""Semantic conventions that the names follow."""


class Instrument(StrEnum):
    """How values of a metric add up. Both counters are cumulative sums in OTLP."""

    COUNTER = "counter"
    UPDOWNCOUNTER = "updowncounter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


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
CALL_ACTIVE = Metric(
    "xpumeter.call.active",
    _UPDOWN,
    "{call}",
    "Calls in flight: they entered the driver and did not return yet. 0 while there are none.",
    On.SERIES,
    (KIND,),
)
CALL_OLDEST = Metric(
    "xpumeter.call.oldest",
    Instrument.GAUGE,
    "s",
    "Age of the oldest call in flight. Absent while there is none. It grows for as long as a "
    "device does not answer.",
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

METRICS = (
    CALLS,
    CALL_TIME,
    CALL_INTERRUPTED,
    CALL_ACTIVE,
    CALL_OLDEST,
    CALL_UNATTRIBUTED,
    DEVICE_INFO,
)
"""Of containers and devices; the agent's own are in own.py."""
