# SPDX-License-Identifier: Apache-2.0
"""Requests that a receiver takes: nothing is lost between them, and nothing comes twice."""

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics

from fake_collector import Request
from xpumeter.export import split

Points = list[tuple[str, str, int]]


def resource(name: str, metrics: list[tuple[str, int]]) -> ResourceMetrics:
    """One with so many points in each metric."""
    made = ResourceMetrics(schema_url="s")
    made.resource.attributes.add(key="id").value.string_value = name
    scope = made.scope_metrics.add(schema_url="s")
    scope.scope.name = "xpumeter"
    for metric, count in metrics:
        message = scope.metrics.add(name=metric, unit="{call}", description=metric)
        message.sum.is_monotonic = True
        for number in range(count):
            message.sum.data_points.add(as_int=number)
    return made


def points(requests: list[bytes]) -> Points:
    return [
        (each.resource.attributes[0].value.string_value, metric.name, point.as_int)
        for request in requests
        for each in Request.FromString(request).resource_metrics
        for scope in each.scope_metrics
        for metric in scope.metrics
        for point in metric.sum.data_points
    ]


RESOURCES = st.lists(
    st.tuples(
        st.text("ab", min_size=1, max_size=9),
        st.lists(
            st.tuples(st.sampled_from(["calls", "time"]), st.integers(1, 9)), min_size=1, max_size=4
        ),
    ),
    max_size=9,
)


@given(RESOURCES, st.integers(1, 2000))
def test_every_point_is_in_one_request_that_fits(
    described: list[tuple[str, list[tuple[str, int]]]], limit_bytes: int
) -> None:
    """In their order; only a point that is larger by itself makes a request that is."""
    bodies = [resource(*each).SerializeToString() for each in described]
    whole = Request(resource_metrics=map(ResourceMetrics.FromString, bodies)).SerializeToString()

    requests = list(split.requests(bodies, limit_bytes))

    assert points(requests) == points([whole])
    for request in requests:
        assert len(request) <= limit_bytes or len(points([request])) == 1
    if whole and len(whole) <= limit_bytes:
        assert requests == [whole]


def test_a_resource_is_whole_where_it_fits() -> None:
    """The cut is between Resources, so a receiver sees all of one at once."""
    bodies = [resource(name, [("calls", 3)]).SerializeToString() for name in "abcd"]

    requests = list(split.requests(bodies, 2 * len(bodies[0]) + 10))

    assert [{name for name, _, _ in points([request])} for request in requests] == [
        {"a", "b"},
        {"c", "d"},
    ]


def test_halves_go_down_to_a_point() -> None:
    """Each half says of its metric what the whole said; one point has no halves."""
    request = Request(resource_metrics=[resource("a", [("calls", 3)])]).SerializeToString()

    pair = split.halves(request)

    assert pair is not None
    assert points(list(pair)) == points([request])
    for half in pair:
        (made,) = Request.FromString(half).resource_metrics
        (metric,) = made.scope_metrics[0].metrics
        assert (made.schema_url, made.scope_metrics[0].scope.name) == ("s", "xpumeter")
        assert (metric.unit, metric.description, metric.sum.is_monotonic) == (
            "{call}",
            "calls",
            True,
        )
    assert split.halves(pair[0]) is None


def test_an_empty_request_has_no_halves() -> None:
    """Nor has a Resource without points, which nobody sends."""
    assert split.halves(b"") is None
    assert split.halves(Request(resource_metrics=[ResourceMetrics()]).SerializeToString()) is None
