# SPDX-License-Identifier: Apache-2.0
"""The agent about itself."""

from dataclasses import dataclass, field

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
    runtime_calls: int = 0
    runtime_errors: int = 0
    bad_records: int = 0
    unresolved: int = 0
    exports: int = 0
    export_failures: int = 0
    hook: str = ""
