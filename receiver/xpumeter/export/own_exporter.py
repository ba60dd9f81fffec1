# SPDX-License-Identifier: Apache-2.0
"""How the agent's own metrics get to the Collector: by OpenTelemetry's exporters, our way.

Importing this imports the SDK, 10 MiB.
"""

import contextlib
import logging
from typing import Any

from opentelemetry.sdk.metrics import (
    Counter,
    Histogram,
    ObservableCounter,
    ObservableUpDownCounter,
    UpDownCounter,
)
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    MetricExporter,
    MetricExportResult,
    MetricsData,
)

from xpumeter.destination import Destination, OtlpGrpc
from xpumeter.errors import ConfigError
from xpumeter.export import tls
from xpumeter.export.endpoint import grpc_target, shown

_log = logging.getLogger(__name__)

_KINDS = (Counter, UpDownCounter, Histogram, ObservableCounter, ObservableUpDownCounter)
_CUMULATIVE: dict[type, AggregationTemporality] = dict.fromkeys(
    _KINDS, AggregationTemporality.CUMULATIVE
)


def own_exporter(destination: Destination) -> MetricExporter:
    """An exporter of the SDK that goes where the counts go, with all that is set for them.

    It logs changes of state only. ConfigError if TLS files are not usable.
    """
    return _OwnExporter(destination)


class _OwnExporter(MetricExporter):
    """The stock exporter of the protocol, which logs each try; this one logs changes of state."""

    def __init__(self, destination: Destination) -> None:
        super().__init__(_CUMULATIVE)
        self._destination = destination
        self._stamp = tls.stamp(destination.tls)
        self._stock = _stock(destination)
        self._failing = False
        logging.getLogger("opentelemetry.exporter.otlp").setLevel(logging.CRITICAL)

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        self._renew()
        result = self._stock.export(metrics_data, timeout_millis, **kwargs)
        failing = result is not MetricExportResult.SUCCESS
        endpoint = shown(self._destination)
        if failing and not self._failing:
            _log.warning("event=telemetry endpoint=%s state=failing", endpoint)
        elif self._failing and not failing:
            _log.info("event=telemetry endpoint=%s state=OK", endpoint)
        self._failing = failing
        return result

    def _renew(self) -> None:
        """Take up certificates that have changed; a pair of which half is there is left alone."""
        if (stamp := tls.stamp(self._destination.tls)) == self._stamp:
            return
        with contextlib.suppress(ConfigError):
            before, self._stock = self._stock, _stock(self._destination)
            before.shutdown()
            self._stamp = stamp

    def force_flush(self, timeout_millis: float = 10_000) -> bool:  # noqa: ARG002 (the SDK's)
        """Nothing waits here."""
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._stock.shutdown(timeout_millis, **kwargs)


def _stock(destination: Destination) -> MetricExporter:
    # All said aloud: what is left out the stock exporters take from OTEL_* variables, and then the
    # agent's own metrics would arrive where the counts do not.
    if isinstance(destination, OtlpGrpc):
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

        from xpumeter.export import grpc_transport

        target = grpc_target(destination)
        is_unix = target.address.startswith("unix:")
        return OTLPMetricExporter(
            # It takes the host of a URL, and all of what is none.
            endpoint=target.address if is_unix else f"//{target.address}",
            insecure=not target.secure,
            credentials=grpc_transport.credentials(destination),
            headers=destination.headers,
            timeout=destination.timeout_s,
            compression=grpc_transport.COMPRESSION[destination.compression],
            preferred_temporality=_CUMULATIVE,
            channel_options=grpc_transport.options(destination),  # type: ignore[arg-type]
        )
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (
        OTLPMetricExporter as OTLPHttpMetricExporter,
    )

    from xpumeter.export.own_session import session

    return OTLPHttpMetricExporter(
        endpoint=destination.metrics_endpoint or destination.endpoint,
        timeout=destination.timeout_s,
        compression=Compression.NoCompression,  # the session does it
        preferred_temporality=_CUMULATIVE,
        session=session(destination),
    )
