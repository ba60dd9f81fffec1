# SPDX-License-Identifier: Apache-2.0
"""The reader of Prometheus text is strict: what it does not understand is an error."""

import pytest

from lab.collector import Sample, parse


def test_samples_are_read_with_their_labels() -> None:
    """Escapes, no labels, exponents, infinity, a time stamp; comments are passed over."""
    text = """\
# HELP a_total Help.
# TYPE a_total counter
a_total{path="/x,y}",quoted="say \\"hi\\"",back="a\\\\b",line="1\\n2"} 7
b 1.5e+06 1700000000000
c{} +Inf
"""
    assert parse(text) == (
        Sample(
            "a_total", {"path": "/x,y}", "quoted": 'say "hi"', "back": "a\\b", "line": "1\n2"}, 7
        ),
        Sample("b", {}, 1_500_000),
        Sample("c", {}, float("inf")),
    )


@pytest.mark.parametrize(
    "line",
    ["a", "a{ 1", 'a{x="1" 1', 'a{x="1",x="2"} 1', "a{x=1} 1", "a one", "1a 1", 'a{x="\\t"} 1'],
)
def test_anything_else_is_an_error(line: str) -> None:
    """It is never skipped: a test would miss what it looks for, or look at half."""
    with pytest.raises(ValueError, match=r"line 2|one"):
        parse(f"b 1\n{line}\n")
