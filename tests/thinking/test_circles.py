"""Going round in circles: each pattern is seen when it is complete and not before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.thinking.circles import TRACES_KEPT, Trace, circle_in, trace_of, with_trace


def ran(name: str, arguments: str = "{}", output: str = "fine", *, failed: bool = False) -> Trace:
    return trace_of(name, arguments, output, failed=failed)


def failing(name: str, error: str) -> Trace:
    return ran(name, output=error, failed=True)


@pytest.mark.parametrize(
    ("traces", "circle"),
    [
        ([failing("test", "1 failed in 3 s"), failing("test", "1 failed in 4 s")], ""),
        (
            [failing("test", "1 failed in 3 s"), failing("test", "1 failed in 4 s"), failing("test", "1 failed")],
            "the same call of test has failed 3 times in a row",
        ),
        ([failing("test", "1"), ran("edit"), failing("test", "1"), ran("edit", "{}"), failing("test", "1")], ""),
        ([ran("read", f'{{"line": {line}}}') for line in range(12)], ""),
        ([ran("read")] * 3, ""),
        ([ran("read")] * 4, "the same call of read has had the same result 4 times in a row"),
        ([ran("read", output=f"{line}") for line in range(4)], ""),
        ([ran("edit", "1"), ran("edit", "2")] * 2, ""),
        (
            [ran("edit", "1"), ran("edit", "2")] * 3,
            "the same 2 calls of edit have had the same results 3 times in turn",
        ),
        (
            [ran("edit"), ran("test"), ran("read")] * 3,
            "the same 3 calls of edit and test and read have had the same results 3 times in turn",
        ),
        ([ran("edit"), ran("test"), ran("read")] * 2, ""),
    ],
)
def test_a_pattern_is_told_in_words(traces: list[Trace], circle: str) -> None:
    assert circle_in(traces) == circle


def test_what_went_well_before_does_not_hide_a_circle() -> None:
    assert circle_in([*(ran("edit", f"{n}") for n in range(8)), *[ran("read")] * 4])


@given(st.lists(st.integers()))
def test_only_as_many_traces_are_kept_as_a_pattern_has(numbers: list[int]) -> None:
    kept: tuple[Trace, ...] = ()
    for number in numbers:
        kept = with_trace(kept, ran("edit", str(number)))

    assert kept == tuple(ran("edit", str(number)) for number in numbers[-TRACES_KEPT:])
