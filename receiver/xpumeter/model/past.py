# SPDX-License-Identifier: Apache-2.0
"""What is left of rows that are gone from the kernel, or may be gone any moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from xpumeter.model.calls import Kind, Reason
from xpumeter.model.kernel import Incarnation, RowKey
from xpumeter.model.owners import Identity, Owner


class Sum(NamedTuple):
    """What rows add up to; units as in Row. The earliest first call is the sum's."""

    calls: int
    time_ns: int
    first_boot_ns: int

    def plus(self, other: "Sum") -> "Sum":
        """Both together."""
        return Sum(
            self.calls + other.calls,
            self.time_ns + other.time_ns,
            min(self.first_boot_ns, other.first_boot_ns),
        )


Result = tuple[Kind, int]
"""Kind and error. The error is as in Row, so restarts are results of their own."""


Sums = Mapping[Result, Sum]
"""What one caller did on one device."""


class Pending(NamedTuple):
    """A row that the kernel may have deleted since it was read.

    `identity` is its caller's, None if the names of the cgroup do not say: the name may go together
    with the row, so it is kept here. `sum` is all that the row had of `result`: where its call had
    several kinds, a row is several of these, with one key and one `row`, which has all.
    """

    key: RowKey
    identity: Identity | None
    result: Result
    sum: Sum
    row: Sum


@dataclass(frozen=True, slots=True)
class Past:
    """Calls that the kernel counted and that are in no row, or in none any more soon.

    Attributes:
        pending: Rows that were offered when they were last read: still there at the next, or gone.
        settled: What rows that are gone had, by caller and device: a part of the caller's series.
        ended: Calls of series whose end was delivered.
        unattributed: Calls that no series will show.
    """

    pending: tuple[Pending, ...] = ()
    settled: Mapping[Identity | None, Mapping[Incarnation, Sums]] = field(default_factory=dict)
    ended: Mapping[Incarnation, int] = field(default_factory=dict)
    unattributed: Mapping[tuple[Incarnation, Reason], Sum] = field(default_factory=dict)


class Settled(NamedTuple):
    """What a caller did in rows that are gone, by device, and who that is by now.

    It is `alive` while it has a cgroup: then it can still call.
    """

    identity: Identity | None
    owner: Owner | None
    alive: bool
    sums: Mapping[Incarnation, Sums]
