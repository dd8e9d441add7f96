"""The throttle: first calls one after another, slower after a 429, and as fast as before after a while."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.thinking.throttle import (
    FIRST_SPACING_SECONDS,
    SLOW_SPACING_SECONDS,
    SPACING_SECONDS_MAX,
    Throttle,
    slow_down,
    spacing_at,
    take_place,
)

NOW = datetime(2026, 11, 19, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_calls_that_are_not_the_first_begin_at_once_and_leave_no_trace() -> None:
    assert take_place(Throttle(), NOW, is_first=False) == (Throttle(), NOW)


def test_first_calls_begin_one_after_another() -> None:
    throttle, places = Throttle(), []
    for _ in range(4):
        throttle, place = take_place(throttle, NOW, is_first=True)
        places.append(place)

    assert places == [after(n * FIRST_SPACING_SECONDS) for n in range(4)]


def test_a_place_long_past_holds_nobody_up() -> None:
    throttle, _ = take_place(Throttle(), NOW, is_first=True)

    assert take_place(throttle, after(60), is_first=True)[1] == after(60)


def test_after_a_429_nobody_calls_before_the_time_is_up_and_then_one_after_another() -> None:
    throttle, places = slow_down(Throttle(), NOW, 10.0), []
    for _ in range(3):
        throttle, place = take_place(throttle, NOW, is_first=False)
        places.append(place)

    assert places == [after(10 + n * SLOW_SPACING_SECONDS) for n in range(3)]


def test_many_429s_at_once_count_once_and_the_longest_pause_holds() -> None:
    throttle = Throttle()
    for seconds in (5.0, 20.0, 1.0):
        throttle = slow_down(throttle, NOW, seconds)

    assert spacing_at(throttle, NOW) == SLOW_SPACING_SECONDS
    assert throttle.not_before == after(20)


def test_a_429_after_the_pause_doubles_the_time_between_calls_up_to_a_limit() -> None:
    throttle, spacings = Throttle(), []
    for n in range(9):
        throttle = slow_down(throttle, after(n), 0.5)
        spacings.append(spacing_at(throttle, after(n)))

    assert spacings[:4] == [SLOW_SPACING_SECONDS * 2**n for n in range(4)]
    assert spacings[-1] == SPACING_SECONDS_MAX


@pytest.mark.parametrize(("minutes", "spacing"), [(0, 0.25), (1, 0.125), (2, 0.0625), (3, 0.0), (1000, 0.0)])
def test_the_time_between_calls_shrinks_while_nobody_is_told_to_slow_down(minutes: int, spacing: float) -> None:
    assert spacing_at(slow_down(Throttle(), NOW, 0.0), after(60 * minutes)) == spacing


@given(st.lists(st.tuples(st.floats(0, 5), st.booleans(), st.booleans())))
def test_while_it_is_slow_no_two_calls_have_the_same_place(
    happenings: list[tuple[float, bool, bool]],
) -> None:
    throttle, now, places = slow_down(Throttle(), NOW, 1.0), NOW, []
    for pause, is_first, is_refused in happenings:
        now += timedelta(seconds=min(pause, 1.0))
        if is_refused:
            throttle = slow_down(throttle, now, pause)
        slow = spacing_at(throttle, now) > 0
        throttle, place = take_place(throttle, now, is_first=is_first)
        assert place >= now
        assert throttle.not_before is not None
        assert place >= throttle.not_before or now > throttle.not_before
        if slow:
            places.append(place)

    assert places == sorted(set(places))


def test_a_clock_that_is_wrong_stops_nobody_and_slows_nobody_down() -> None:
    """Another machine's is five hours ahead."""
    ahead = after(5 * 3600)
    throttle, _ = take_place(slow_down(Throttle(), ahead, 60.0), ahead, is_first=True)

    assert take_place(throttle, NOW, is_first=False)[1] == NOW
    assert spacing_at(throttle, NOW) == 0.0
    assert take_place(slow_down(throttle, NOW, 7.0), NOW, is_first=False)[1] == after(7)
