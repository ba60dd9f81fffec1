# SPDX-License-Identifier: Apache-2.0
"""The agent about itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from xpumeter.model.exports import ExportStats
from xpumeter.model.kernel import Losses


@dataclass(frozen=True, slots=True)
class AgentStats:
    """The agent about itself, for its own metrics. Running totals, but for rows and unresolved."""

    rows: int = 0
    row_limit: int = 0
    refused: int = 0
    losses: Losses = field(default_factory=Losses)
    missing: int = 0
    """Calls by which the kernel's rows and totals differ: 0, or a fault."""
    missed: Mapping[str, int] = field(default_factory=dict)
    """Runs that the kernel left out, by program; empty where nobody can know."""
    bad_records: int = 0
    unresolved: int = 0
    unresolved_age_s: float | None = None
    """Of the oldest of them."""
    exports: ExportStats | None = None
    """None where no Collector is."""
    hook: str = ""
    version: str = ""
    object_sha256: str = ""
    """Of what is attached, which may be of another version."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the container runtime. `error` is empty if it was answered."""

    method: str
    duration_s: float
    error: str
