"""The policy: how often and how long a call is tried, and what a person is asked, row by row."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.thinking import errors
from actors.thinking.effects import Purpose
from actors.thinking.troubles import (
    ERRORS,
    Patience,
    Permanent,
    Refused,
    Transient,
    Trouble,
    pause_after,
    question_about,
)
from bus.ledger.amounts import Amount
from protocol.codec import encode

CODER = Purpose(role="coder", state="CODING", story="s-1", spec="todo")
PATIENCE = Patience(attempts_max=4, total_seconds=100.0, pause_seconds=1.0, pause_seconds_max=3.0)


def trouble(kind: Transient | Permanent, retry_after: float | None = None) -> Trouble:
    return Trouble(kind=kind, said="so it is", retry_after_seconds=retry_after)


@pytest.mark.parametrize("kind", get_args(Transient))
def test_what_is_transient_is_tried_again_with_growing_pauses_until_it_is_enough(kind: Transient) -> None:
    pauses = [pause_after(PATIENCE, trouble(kind), attempts, 0.0, 1.0) for attempts in range(1, 5)]

    assert trouble(kind).error is None
    assert pauses == [1.0, 2.0, 3.0, None]


@pytest.mark.parametrize("kind", get_args(Permanent))
def test_what_is_not_transient_is_never_tried_again(kind: Permanent) -> None:
    assert pause_after(PATIENCE, trouble(kind), 1, 0.0, 0.5) is None
    assert trouble(kind).error is ERRORS[kind]


def test_the_time_for_all_tries_together_is_limited() -> None:
    assert pause_after(PATIENCE, trouble("overloaded"), 1, 98.5, 1.0) == 1.0
    assert pause_after(PATIENCE, trouble("overloaded"), 1, 99.5, 1.0) is None


@pytest.mark.parametrize(
    ("told", "chance", "pause"),
    [(0.0, 0.0, 0.5), (7.0, 0.0, 7.0), (7.0, 1.0, 7.7), (-3.0, 0.0, 0.5), (50.0, 0.0, 50.0), (3600.0, 0.0, 60.0)],
)
def test_a_pause_that_the_provider_asks_for_is_heeded_up_to_a_limit(told: float, chance: float, pause: float) -> None:
    patience = Patience(pause_seconds=1.0, retry_after_seconds_max=60.0)

    assert pause_after(patience, trouble("rate_limited", told), 1, 0.0, chance) == pytest.approx(pause)


def test_a_pause_that_does_not_fit_into_what_is_left_is_not_made() -> None:
    assert pause_after(PATIENCE, trouble("rate_limited", 60.0), 1, 50.0, 0.0) is None


@given(st.integers(1, 3), st.floats(0, 1))
def test_pauses_are_spread(attempts: int, chance: float) -> None:
    whole = pause_after(PATIENCE, trouble("overloaded"), attempts, 0.0, 1.0)
    pause = pause_after(PATIENCE, trouble("overloaded"), attempts, 0.0, chance)

    assert whole is not None
    assert pause is not None
    assert whole / 2 <= pause <= whole


ASKED = {
    "MissingKeyError": ("try again", "give up"),
    "KeyRefusedError": ("try again", "give up"),
    "PermissionRefusedError": ("try again", "give up"),
    "BillingError": ("try again", "give up"),
    "SpendLimitError": ("try again", "give up"),
    "ModelGoneError": ("try again", "give up"),
    "OutputLimitError": ("try again", "give up"),
    "ContentRefusedError": ("try again", "give up"),
    "SpecBudgetError": ("raise", "continue once", "try again", "pivot", "abandon"),
    "DayBudgetError": ("raise", "continue once", "try again", "pivot", "abandon"),
    "StoryBudgetError": None,
    "ContextFullError": None,
    "ModelChangedError": None,
    "BadRequestError": None,
}


def test_the_table_has_every_error() -> None:
    assert set(ASKED) == {name for name in vars(errors) if name.endswith("Error") and name != "EffectError"}


@pytest.mark.parametrize(("error", "choices"), ASKED.items())
def test_a_person_is_asked_where_a_person_can_help(error: str, choices: tuple[str, ...] | None) -> None:
    question = question_about(error, "status 401", "", CODER)

    assert (None if question is None else tuple(question.choices)) == choices
    if question is not None:
        assert "coder, story s-1" in question.text
        assert question.context.startswith("status 401\n")


MORE = Amount(microdollars=5)


@pytest.mark.parametrize(
    ("error", "evidence", "known"),
    [
        ("DayBudgetError", Refused(scope="day", name="2026-11-19", raised=MORE), ("day", "2026-11-19", MORE)),
        ("SpecBudgetError", Refused(scope="spec", name="[secret]-migration", raised=MORE), ("spec", "todo", MORE)),
        ("DayBudgetError", None, ("day", "", None)),
        ("SpecBudgetError", None, ("spec", "todo", None)),
    ],
)
def test_the_ceiling_that_was_in_the_way_is_known_to_the_question(
    error: str, evidence: Refused | None, known: tuple[str, str, Amount | None]
) -> None:
    question = question_about(error, "", encode(evidence).decode() if evidence else "cut", CODER)

    assert question is not None
    assert (question.scope, question.name, question.raised) == known


def test_trouble_says_all_that_a_support_needs() -> None:
    said = str(Trouble(kind="rate_limited", said="too many", status=429, request="req_1"))

    assert said == "rate limited: too many (status 429, request req_1)"
