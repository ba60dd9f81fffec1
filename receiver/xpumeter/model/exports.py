# SPDX-License-Identifier: Apache-2.0
"""What became of the batches that were to be delivered."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ExportStats:
    """Running totals over all batches, but for `last_duration_s`.

    A cause is one word of a small set, fit for `error.type`: gRPC's status (`UNAVAILABLE`), that of
    HTTP (`503`), or what `export/transport.py` names.

    Attributes:
        exports: Batches that came to an end, whatever end.
        failures: Of these, those that did not arrive, by cause.
        requests: Requests that were tried, with repetitions and halves.
        sent_bytes: Of the requests that were taken, before compression.
        points: Data points of batches that arrived; also those that were rejected there.
        failed_points: Data points of batches that did not arrive, by cause.
        rejected_points: Data points that a Collector refused in requests that it took.
        duration_s: From the first try of a batch to its end, added up over `exports`.
        last_duration_s: The same of the last one.
    """

    exports: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    requests: int = 0
    sent_bytes: int = 0
    points: int = 0
    failed_points: Mapping[str, int] = field(default_factory=dict)
    rejected_points: int = 0
    duration_s: float = 0.0
    last_duration_s: float = 0.0

    @property
    def failed(self) -> int:
        """Batches that did not arrive."""
        return sum(self.failures.values())
