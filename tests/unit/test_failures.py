# SPDX-License-Identifier: Apache-2.0
"""What the manual says of failing Collectors is what tests/collector/test_failing.py tries."""

from pathlib import Path

from failures import WAYS, table


def test_the_table_in_the_manual_is_the_one_that_is_tried() -> None:
    """Row by row."""
    assert table() in (Path(__file__).parents[2] / "docs/operations.md").read_text()


def test_each_way_to_fail_is_one() -> None:
    """No two are called the same, and there are more than twelve for each protocol."""
    assert len({way.name for way in WAYS}) == len(WAYS)
    assert min(sum(bool(way.grpc) for way in WAYS), sum(bool(way.http) for way in WAYS)) > 12
