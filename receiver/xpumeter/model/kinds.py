# SPDX-License-Identifier: Apache-2.0
"""Under which kinds calls were counted before a driver table changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from xpumeter.model.calls import Kind
from xpumeter.model.kernel import RowKey


@dataclass(frozen=True, slots=True)
class Before:
    """What a row had when the kind of its call changed: all until then, running totals.

    `kind` is that of the calls since the change before, `until_boot_ns` (CLOCK_BOOTTIME) when a
    table with another one was loaded.
    """

    kind: Kind
    calls: int
    time_ns: int
    until_boot_ns: int


@dataclass(frozen=True, slots=True)
class KindHistory:
    """What the kinds of calls were.

    Attributes:
        drivers: DRM name -> the kinds that its calls were last counted under, by number.
        rows: Changes of each row that saw any, oldest first.
    """

    drivers: Mapping[str, Mapping[int, Kind]] = field(default_factory=dict)
    rows: Mapping[RowKey, tuple[Before, ...]] = field(default_factory=dict)
