# SPDX-License-Identifier: Apache-2.0
"""What it costs to export series, ours or the SDK's way, in a process of its own.

`python tests/bench/export_cost.py WAY ENDPOINT SERIES` prints one line of JSON. A series is one
owner, device, kind and outcome, with its calls and their time: two points. Every value changes in
each batch.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from otlp_samples import GPU, HOST, SECOND
from xpumeter.destination import OtlpGrpc
from xpumeter.export.messages import Messages
from xpumeter.export.naming import Naming
from xpumeter.export.sender import Sender
from xpumeter.export.transport import open_transport
from xpumeter.model.calls import Kind
from xpumeter.model.owners import Owner
from xpumeter.model.series import Point, Series, Snapshot

BATCHES = 6
START_NS = 1_700_000_000 * SECOND
KINDS = (Kind.SUBMIT, Kind.ALLOC, Kind.FREE, Kind.WAIT)


def owners(count: int) -> list[Owner]:
    uid = "b5ebee9a-740b-4b72-b4b4-200165f8c557"
    return [
        Owner("ml", f"trainer-{number}", uid, f"main-{number}", f"{number:064x}")
        for number in range(count)
    ]


def snapshots(series: int) -> Iterator[Snapshot]:
    """One for each batch; each with values of its own, as the ledger makes them."""
    everybody = owners(series // len(KINDS))
    for number in range(BATCHES):
        yield Snapshot(
            START_NS + number * 10 * SECOND,
            number * 10 * SECOND,
            tuple(
                Series(
                    owner,
                    GPU,
                    {(kind, 0): Point(1000 + number, START_NS) for kind in KINDS},
                    {kind: Point(SECOND + number, START_NS) for kind in KINDS},
                    {},
                    ended=False,
                )
                for owner in everybody
            ),
            (),
            {},
        )


def ours(endpoint: str) -> Callable[[Snapshot], bool]:
    messages = Messages(version="1", host=HOST)
    sender = Sender(open_transport(OtlpGrpc(endpoint)))

    def export(snapshot: Snapshot) -> bool:
        batch = messages.update(snapshot, delivered=sender.delivered)
        sender.send(batch)
        ended = sender.stats.exports + 1
        while sender.stats.exports < ended:
            time.sleep(0.01)
        return sender.delivered == batch.seq

    return export


def stock(endpoint: str) -> Callable[[Snapshot], bool]:
    """As a program would that uses the SDK's exporter and has no instruments."""
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import export as sdk
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    # Points to a request, so that each stays below the 4 MiB of a receiver.
    exporter = OTLPMetricExporter(endpoint, insecure=True, max_export_batch_size=20_000)
    naming = Naming(HOST)
    scope = InstrumentationScope("xpumeter", "1")

    def export(snapshot: Snapshot) -> bool:
        found: dict[object, dict[object, list[sdk.NumberDataPoint]]] = {}
        for attributes, (metric, names), point, _ in naming.points(snapshot):
            found.setdefault(attributes, {}).setdefault(metric, []).append(
                sdk.NumberDataPoint(dict(names), point.start_unix_ns, snapshot.unix_ns, point.value)
            )
        data = sdk.MetricsData(
            [
                sdk.ResourceMetrics(
                    Resource(dict(attributes)),  # type: ignore[call-overload]
                    [
                        sdk.ScopeMetrics(
                            scope,
                            [
                                sdk.Metric(
                                    metric.name,  # type: ignore[attr-defined]
                                    metric.description,  # type: ignore[attr-defined]
                                    metric.unit,  # type: ignore[attr-defined]
                                    sdk.Sum(points, sdk.AggregationTemporality.CUMULATIVE, True),
                                )
                                for metric, points in metrics.items()
                            ],
                            "",
                        )
                    ],
                    "",
                )
                for attributes, metrics in found.items()
            ]
        )
        return exporter.export(data) is sdk.MetricExportResult.SUCCESS

    return export


def memory_kib(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    return int(status[name].split()[0])


def main(way: str, endpoint: str, series: int) -> None:
    export = {"ours": ours, "stock": stock}[way](endpoint)
    before_kib = memory_kib("VmRSS")
    cpu_s: list[float] = []
    failed = 0
    for snapshot in snapshots(series):
        begin_s = time.process_time()
        failed += not export(snapshot)
        cpu_s.append(time.process_time() - begin_s)
    # The first batch makes what the others change.
    steady_s = sorted(cpu_s[1:])[len(cpu_s[1:]) // 2]
    print(
        json.dumps(
            {
                "first_us": cpu_s[0] / series * 1e6,
                "steady_us": steady_s / series * 1e6,
                "peak_kib": (memory_kib("VmHWM") - before_kib) / series,
                "failed": failed,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
