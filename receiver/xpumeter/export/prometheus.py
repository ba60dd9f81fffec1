# SPDX-License-Identifier: Apache-2.0
"""The page for a scrape: what the Collector's prometheus exporter would show, without a Collector.

It is made from the same OTLP messages that are sent to a Collector, so both ways have the same
series. The text is prometheus_client's, names and labels are those of the Collector (decision 22).
Importing this imports prometheus_client, which nobody needs who is not scraped.
"""

import gzip
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    DataPointFlags,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
)
from prometheus_client import Metric as Family
from prometheus_client import exposition as text
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from xpumeter.export.messages import Messages
from xpumeter.export.pages import Answer
from xpumeter.model.owners import Owner
from xpumeter.model.series import Snapshot

LABELS = ("k8s.", "container.id", "process.linux.cgroup", "host.", "hw.", "xpumeter.")
"""What a Resource's attributes that become labels begin with: otel-collector/prometheus.yaml."""

_UNITS = {"s": "seconds", "By": "bytes"}
_NO_VALUE = DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK

Own = Callable[[], ExportMetricsServiceRequest]


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A text format. `bound` writes the border of a bucket, which is part of a series' name."""

    content_type: str
    encode: Callable[[Collector], bytes]
    bound: Callable[[float], str]


TEXT = Form(text.CONTENT_TYPE_PLAIN_0_0_4, text.generate_latest, "{:g}".format)
OPENMETRICS = Form(openmetrics.CONTENT_TYPE_LATEST, openmetrics.generate_latest, floatToGoString)
"""Go's client, which the Collector has, writes 10 in text and 10.0 here."""

_MEDIA = {"text/plain": TEXT, "application/openmetrics-text": OPENMETRICS, "*/*": TEXT}


def negotiate(accept: str) -> Form:
    """The form that an Accept header would rather have; text if it names none that there is."""
    best, best_weight = TEXT, 0.0
    for part in accept.split(","):
        media, *parameters = (word.strip().lower() for word in part.split(";"))
        given = dict(word.split("=", 1) for word in parameters if "=" in word)
        form = _MEDIA.get(media)
        if form is OPENMETRICS and given.get("version", "1.0.0") != "1.0.0":
            continue
        try:
            weight = float(given.get("q", "1"))
        except ValueError:
            continue
        if form is not None and weight > best_weight:
            best, best_weight = form, weight
    return best


@dataclass(frozen=True, slots=True)
class _Shown:
    """All series at one moment, serialised: nobody changes them while they are made into text."""

    seq: int
    parts: tuple[bytes, ...]


class Scrape:
    """The page `/metrics`: the newest snapshot, and the agent's own metrics from `own`.

    `update` is the loop's and returns at once. Text is made when somebody asks, in the thread that
    asks, once for each snapshot and format.
    """

    def __init__(
        self, *, version: str, host: Mapping[str, str], linger_s: float, own: Own | None
    ) -> None:
        self._messages = Messages(version=version, host=host, linger_s=linger_s)
        self._own = own
        self._shown = _Shown(0, ())
        self._texts: dict[tuple[int, Form, bool], bytes] = {}
        self._lock = threading.Lock()

    def update(self, snapshot: Snapshot) -> None:
        """Show this from now on."""
        # Nobody confirms a scrape: a series that ended is there for its linger, and then gone.
        batch = self._messages.update(snapshot, delivered=self._shown.seq)
        self._shown = _Shown(batch.seq, batch.parts)

    @property
    def told(self) -> frozenset[Owner]:
        """Owners that have ended, and are shown no more."""
        return self._messages.told

    def answer(self, headers: Mapping[str, str]) -> Answer:
        """The page, as Prometheus text or OpenMetrics, whichever the request would rather have."""
        form = negotiate(headers.get("accept", ""))
        packed = text.gzip_accepted(headers.get("accept-encoding", ""))
        with self._lock:
            shown = self._shown
            key = (shown.seq, form, packed)
            if key not in self._texts:
                self._texts = {k: made for k, made in self._texts.items() if k[0] == shown.seq}
                made = form.encode(_Families(self._requests(shown), form))
                self._texts[key] = gzip.compress(made, 1) if packed else made
            encoding = {"Content-Encoding": "gzip"} if packed else {}
            return Answer(
                self._texts[key],
                headers={
                    "Content-Type": form.content_type,
                    "Vary": "Accept, Accept-Encoding",
                    **encoding,
                },
            )

    def _requests(self, shown: _Shown) -> Iterator[ExportMetricsServiceRequest]:
        for part in shown.parts:
            yield ExportMetricsServiceRequest.FromString(part)
        if self._own is not None:
            yield self._own()


class _Families(Collector):
    """Metric families, each once, from requests."""

    def __init__(self, requests: Iterable[ExportMetricsServiceRequest], form: Form) -> None:
        self._bound = form.bound
        self._families: dict[str, Family] = {}
        for request in requests:
            for resource in request.resource_metrics:
                self._add(resource)

    def collect(self) -> Iterable[Family]:
        """In the order in which they came."""
        return self._families.values()

    def _add(self, resource: ResourceMetrics) -> None:
        attributes = dict(_labels(resource.resource.attributes))
        labels = {
            _label(name): text for name, text in attributes.items() if name.startswith(LABELS)
        }
        if "service.name" in attributes:
            self._add_target(attributes)
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                self._add_metric(metric, labels)

    def _add_target(self, attributes: Mapping[str, str]) -> None:
        target = Family("target", "Attributes of the agent's own Resource.", "info")
        labels = {_label(name): text for name, text in attributes.items()}
        target.add_sample("target_info", labels, 1)
        self._families["target"] = target

    def _add_metric(self, metric: Metric, labels: Mapping[str, str]) -> None:
        counts = metric.sum.is_monotonic
        name = family_name(metric.name, metric.unit)
        if name not in self._families:
            kind = "histogram" if metric.HasField("histogram") else "counter" if counts else "gauge"
            unit = _UNITS.get(metric.unit, "")
            self._families[name] = Family(name, metric.description, kind, unit)
        family = self._families[name]
        for buckets in metric.histogram.data_points:
            self._add_histogram(family, {**labels, **_point(buckets)}, buckets)
        for point in (*metric.sum.data_points, *metric.gauge.data_points):
            if not point.flags & _NO_VALUE:
                value = point.as_int if point.HasField("as_int") else point.as_double
                sample = f"{name}_total" if counts else name
                family.add_sample(sample, {**labels, **_point(point)}, value)

    def _add_histogram(
        self, family: Family, labels: Mapping[str, str], point: HistogramDataPoint
    ) -> None:
        so_far = 0
        bounds = [*map(self._bound, point.explicit_bounds), "+Inf"]
        for bound, count in zip(bounds, point.bucket_counts, strict=True):
            so_far += count
            family.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, so_far)
        family.add_sample(f"{family.name}_count", dict(labels), point.count)
        family.add_sample(f"{family.name}_sum", dict(labels), point.sum)


def family_name(name: str, unit: str) -> str:
    """Name in Prometheus without `_total`: dots become underscores, a unit is written out.

    As the Collector's translation strategy UnderscoreEscapingWithSuffixes has it, for the names and
    units of our catalog.
    """
    plain = _label(name)
    word = _UNITS.get(unit)
    return f"{plain}_{word}" if word and not plain.endswith(f"_{word}") else plain


def _label(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _labels(attributes: Iterable[KeyValue]) -> Iterator[tuple[str, str]]:
    for each in attributes:
        value = getattr(each.value, each.value.WhichOneof("value") or "string_value")
        yield each.key, str(value)


def _point(point: NumberDataPoint | HistogramDataPoint) -> dict[str, str]:
    return {_label(name): text for name, text in _labels(point.attributes)}
