# SPDX-License-Identifier: Apache-2.0
"""What became of what was sent to a Collector."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ExportStats:
    """What became of the batches so far. Running totals, but for `last_duration_s`.

    Attributes:
        exports: Batches that ended, delivered or not.
        failures: Of these, not delivered, by cause.
        requests: Tries, repeats and halves included.
        sent_bytes: Of requests that were taken, before compression.
        points: Data points in delivered batches, rejected ones included.
        failed_points: Data points in batches that were not delivered, by cause.
        rejected_points: Of `points`, refused by the Collector.
        duration_s: Sum over `exports`, from the first try to the end.
        last_duration_s: Of the last one.
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
        """Batches that were not delivered, whatever the cause."""
        return sum(self.failures.values())
