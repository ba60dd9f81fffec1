# SPDX-License-Identifier: Apache-2.0
"""The end of a series: its last value, then a marker, each until it was delivered."""

from dataclasses import replace

import pytest

from otlp_samples import (
    GPU,
    NPU,
    SECOND,
    SERVICE,
    TRAINER,
    is_marker,
    new,
    only,
    points,
    resources,
    series,
    snapshot,
)
from xpumeter.export.messages import Batch
from xpumeter.model.calls import Kind
from xpumeter.model.owners import Owner
from xpumeter.model.series import InFlight, Point, Series


def test_the_last_value_is_delivered_before_the_marker() -> None:
    """While the Collector is away, the last value stays in every batch."""
    messages = new()
    messages.update(snapshot(series(calls=7)), delivered=0)
    ended = snapshot(series(calls=9, ended=True))

    for _ in range(5):
        assert only(messages.update(ended, delivered=1)).as_int == 9  # batch 2 has the 9
    assert is_marker(only(messages.update(ended, delivered=2)))


def test_the_marker_is_repeated_until_it_was_delivered_and_the_resource_forgotten() -> None:
    """A batch that was lost had the marker too."""
    messages = new()
    ended = snapshot(series(ended=True))
    messages.update(ended, delivered=0)

    marker = only(messages.update(ended, delivered=1))
    assert is_marker(marker)
    assert is_marker(only(messages.update(ended, delivered=1)))
    assert messages.update(ended, delivered=2).parts == ()
    assert messages.update(ended, delivered=2).parts == ()


def test_the_marker_has_the_attributes_of_its_series() -> None:
    """Or the Collector would not know which series it ends."""
    messages = new()
    before = resources(messages.update(snapshot(series(error=12, ended=True)), delivered=0))
    after = resources(messages.update(snapshot(series(error=12, ended=True)), delivered=1))

    assert list(before) == list(after)
    ((_, was),) = before.items()
    ((_, now),) = after.items()
    assert list(points(was)) == list(points(now))


def test_one_marker_per_metric_message() -> None:
    """Collectors up to 0.161 leave a Metric message at its first marker."""
    kinds = (Kind.SUBMIT, Kind.ALLOC, Kind.FREE)
    ended = Series(TRAINER, GPU, {(kind, 0): Point(3, 100) for kind in kinds}, {}, {}, ended=True)
    messages = new()
    messages.update(snapshot(ended), delivered=0)

    (resource,) = resources(messages.update(snapshot(ended), delivered=1)).values()

    (scope,) = resource.scope_metrics
    assert [metric.name for metric in scope.metrics] == ["xpumeter.calls"] * 3
    assert all(is_marker(point) for metric in scope.metrics for point in metric.sum.data_points)
    assert [len(metric.sum.data_points) for metric in scope.metrics] == [1, 1, 1]


def test_a_scrape_has_a_minute_to_see_the_last_value() -> None:
    """A container that lived one second is on the Collector long enough to be read."""
    messages = new(linger_s=60)
    ended = series(ended=True)
    messages.update(snapshot(ended, at=100 * SECOND), delivered=0)

    assert only(messages.update(snapshot(ended, at=159 * SECOND), delivered=1)).as_int == 7
    assert is_marker(only(messages.update(snapshot(ended, at=160 * SECOND), delivered=2)))


def test_a_last_value_that_changes_has_its_minute_again() -> None:
    """Or a scrape would miss the newer one."""
    messages = new(linger_s=60)
    messages.update(snapshot(series(calls=7, ended=True), at=100 * SECOND), delivered=0)
    late = series(calls=8, ended=True)
    messages.update(snapshot(late, at=155 * SECOND), delivered=1)

    assert only(messages.update(snapshot(late, at=165 * SECOND), delivered=2)).as_int == 8
    assert is_marker(only(messages.update(snapshot(late, at=215 * SECOND), delivered=3)))


@pytest.mark.parametrize("delivered", [0, 1])
@pytest.mark.parametrize("ended", [False, True])
def test_an_owner_that_gets_its_names_leaves_its_old_series_at_once(
    delivered: int, ended: bool
) -> None:
    """Delivered or not, ended or not: the calls are in the new series, and count once."""
    messages = new(linger_s=60)
    nameless = Owner(container_id=TRAINER.container_id)
    messages.update(snapshot(series(nameless, ended=ended)), delivered=0)

    named = snapshot(series(TRAINER, ended=ended))
    found = resources(messages.update(named, delivered=delivered))

    old, new_one = sorted(found.values(), key=lambda each: len(each.resource.attributes))
    assert [is_marker(point) for point in points(old).values()] == [True]
    assert [point.as_int for point in points(new_one).values()] == [7]


def test_an_owner_that_comes_back_opens_again() -> None:
    """Before its marker, while it is sent, and after it was delivered."""
    for updates_ended in range(1, 5):
        messages = new()
        messages.update(snapshot(series(SERVICE, calls=7)), delivered=0)
        for number in range(updates_ended):
            messages.update(snapshot(series(SERVICE, calls=7, ended=True)), delivered=1 + number)

        point = only(
            messages.update(snapshot(series(SERVICE, calls=8)), delivered=1 + updates_ended)
        )

        assert (point.as_int, point.flags) == (8, 0)


def test_a_call_that_is_counted_after_the_end_is_delivered_too() -> None:
    """A thread may still be in a call when its cgroup is gone."""
    messages = new()
    for delivered in range(4):
        batch = messages.update(snapshot(series(calls=7, ended=True)), delivered=delivered)
    assert batch.parts == ()

    assert only(messages.update(snapshot(series(calls=8, ended=True)), delivered=4)).as_int == 8
    assert is_marker(only(messages.update(snapshot(series(calls=8, ended=True)), delivered=5)))


def test_an_owner_is_told_once_the_markers_of_all_its_series_were_delivered() -> None:
    """From then on nobody needs what it did; not before, and not while another device waits."""
    messages = new()
    both = snapshot(series(device=GPU, ended=True), series(device=NPU, ended=True))
    told = []
    for delivered in (0, 1, 1, 2):
        messages.update(both, delivered=delivered)
        told.append(messages.told)
    assert told == [frozenset(), frozenset(), frozenset(), {TRAINER}]

    # One of its series has a call more: that wants to be delivered, too.
    late = snapshot(series(device=GPU, ended=True), series(device=NPU, ended=True, calls=8))
    messages.update(late, delivered=4)
    assert messages.told == frozenset()
    # It has left the snapshot, and no batch says anything of it again.
    messages.update(late, delivered=5)
    messages.update(late, delivered=6)
    assert messages.told == {TRAINER}
    assert messages.update(snapshot(), delivered=7).parts == ()
    assert messages.told == frozenset()


def test_the_end_of_one_device_of_a_container_leaves_the_other() -> None:
    """Markers stay within their Resource."""
    messages = new()
    messages.update(snapshot(series(device=GPU), series(device=NPU)), delivered=0)

    found = resources(messages.update(snapshot(series(device=NPU)), delivered=1))

    by_device = {dict(key)["hw.id"]: points(resource) for key, resource in found.items()}
    assert [is_marker(point) for point in by_device[GPU.device_id].values()] == [True]
    assert [point.as_int for point in by_device[NPU.device_id].values()] == [7]


def waiting(count: int, *, oldest_s: int = 0, ended: bool = False) -> Series:
    """One wait returned, so many are in flight."""
    one = Series(TRAINER, GPU, {}, {Kind.WAIT: Point(SECOND, 100)}, {}, ended=ended)
    calls = InFlight(count, oldest_s * SECOND)
    return replace(one, in_flight={Kind.WAIT: calls} if count else {})


def in_flight(batch: Batch) -> dict[str, float | None]:
    """Value of each metric of calls in flight; None for a marker."""
    (resource,) = resources(batch).values()
    return {
        metric: None if is_marker(point) else point.as_int or point.as_double
        for (metric, _), point in points(resource).items()
        if metric in ("xpumeter.call.active", "xpumeter.call.oldest")
    }


def test_when_all_calls_returned_their_number_is_0_and_there_is_no_age() -> None:
    """The age ends at once, until that was delivered, and comes again with the next call."""
    messages = new(linger_s=60)
    active, oldest = "xpumeter.call.active", "xpumeter.call.oldest"

    def shown(one: Series, delivered: int) -> dict[str, float | None]:
        return in_flight(messages.update(snapshot(one), delivered=delivered))

    assert shown(waiting(2, oldest_s=9), 0) == {active: 2, oldest: 9}
    assert shown(waiting(0), 0) == {active: 0, oldest: None}
    assert shown(waiting(0), 1) == {active: 0, oldest: None}
    assert shown(waiting(0), 2) == {active: 0}
    assert shown(waiting(1, oldest_s=3), 4) == {active: 1, oldest: 3}


def test_the_end_of_a_container_ends_its_calls_in_flight() -> None:
    """Killed in a wait: the number goes to 0 and then, with all else, away."""
    messages = new()
    messages.update(snapshot(waiting(1, oldest_s=9)), delivered=0)

    messages.update(snapshot(waiting(0, ended=True)), delivered=0)
    end = messages.update(snapshot(waiting(0, ended=True)), delivered=2)

    (resource,) = resources(end).values()
    assert {metric for metric, _ in points(resource)} == {
        "xpumeter.call.time",
        "xpumeter.call.active",
    }
    assert all(is_marker(point) for point in points(resource).values())
    assert messages.update(snapshot(waiting(0, ended=True)), delivered=3).parts == ()


def test_one_reason_that_is_no_more_ends_alone() -> None:
    """A point may end while its Resource goes on; the live one comes first."""
    messages = new()
    both = replace(
        series(), calls={(Kind.SUBMIT, 0): Point(1, 100), (Kind.SUBMIT, 12): Point(2, 100)}
    )
    messages.update(snapshot(both), delivered=0)

    (resource,) = resources(messages.update(snapshot(series(calls=1)), delivered=1)).values()

    found = [metric.sum.data_points for metric in resource.scope_metrics[0].metrics]
    assert [[is_marker(point) for point in group] for group in found] == [[False], [True]]


def test_what_waits_for_a_dead_collector_is_bounded() -> None:
    """Containers come and go for ever while nothing is delivered; the oldest are let go."""
    messages = new()
    for number in range(0, 9000, 100):
        owners = [Owner(cgroup=f"/{number + each}") for each in range(100)]
        batch = messages.update(snapshot(*map(series, owners)), delivered=0)

    found = resources(batch)

    assert len(found) == 4096 + 100
    assert {dict(key)["process.linux.cgroup"] for key in found} >= {"/8999", "/8900", "/4900"}


@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_a_step_of_the_clock_moves_no_end(step_s: int) -> None:
    """A minute of linger is a minute, whatever NTP does to the host's time in it."""
    messages = new(linger_s=60)
    ended = series(ended=True)
    messages.update(snapshot(ended, at=9000 * SECOND, boot=100 * SECOND), delivered=0)
    stepped = (9030 + step_s) * SECOND

    early = messages.update(snapshot(ended, at=stepped, boot=130 * SECOND), delivered=1)
    late = messages.update(
        snapshot(ended, at=stepped + 35 * SECOND, boot=165 * SECOND), delivered=2
    )

    assert only(early).as_int == 7
    assert only(early).time_unix_nano == stepped
    assert is_marker(only(late))


def test_a_small_step_back_holds_the_time() -> None:
    """A Collector drops a point that is older than the last one it took."""
    messages = new()
    messages.update(snapshot(series(), at=100 * SECOND), delivered=0)

    held = messages.update(snapshot(series(), at=99 * SECOND), delivered=1)

    assert only(held).time_unix_nano == 100 * SECOND
