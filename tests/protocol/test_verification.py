"""A history that follows the tables is sound, and any single fault in it is found."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.machine import SUSPEND
from protocol.machines import MACHINES, machine
from protocol.verification import Offence, Transition, verify

quick = settings(max_examples=60, deadline=None)  # A slow machine is no fault of the history.


def history(*states: str, name: str = "coder", session: str = "s-1.1") -> list[Transition]:
    """The records of a session that went through `states`, in order."""
    steps = enumerate(pairwise(states), start=1)
    return [Transition(machine=name, session=session, n=n, state_from=a, state_to=b) for n, (a, b) in steps]


def rules(transitions: list[Transition]) -> list[tuple[int, str]]:
    return [(offence.transition.n, offence.rule) for offence in verify(transitions)]


@st.composite
def walks(draw: st.DrawFn, session: str = "s-1.1") -> list[Transition]:
    """A session of any machine that goes, or stays, as its table allows, through SUSPEND too."""
    table = machine(draw(st.sampled_from(list(MACHINES))))
    states, origin = [table.initial], ""
    for _ in range(draw(st.integers(min_value=1, max_value=15))):
        here = states[-1]
        there = draw(st.sampled_from((here, *table.leads_to(here, origin))))
        if there == SUSPEND != here:
            origin = here
        states.append(there)
    return history(*states, name=table.name, session=session)


@st.composite
def corrupted_walks(draw: st.DrawFn) -> list[Transition]:
    """A sound walk with one fault: a number or a state changed, or a record lost, repeated or out of place."""
    walk = draw(walks().filter(lambda records: len(records) > 1))
    at = draw(st.integers(min_value=0, max_value=len(walk) - 2))  # The end of a history can be cut off unseen.
    states = (*machine(walk[0].machine).states, SUSPEND, "NOWHERE")

    def other(old: Any, new: st.SearchStrategy[Any]) -> Any:
        return draw(new.filter(lambda value: value != old))

    record = walk[at]
    fault = draw(st.sampled_from(["n", "state_from", "state_to", "lost", "repeated", "out of place"]))
    if fault == "n":
        walk[at] = msgspec.structs.replace(record, n=other(record.n, st.integers(-1, 20)))
    elif fault == "state_from":
        walk[at] = msgspec.structs.replace(record, state_from=other(record.state_from, st.sampled_from(states)))
    elif fault == "state_to":
        walk[at] = msgspec.structs.replace(record, state_to=other(record.state_to, st.sampled_from(states)))
    else:
        walk[at : at + 2] = {"lost": [walk[at + 1]], "repeated": [record, *walk[at : at + 2]]}.get(
            fault, [walk[at + 1], record]
        )
    return walk


@st.composite
def interleaved_walks(draw: st.DrawFn) -> list[Transition]:
    """Several sessions, each in its own order, mixed as they come."""
    sessions = [list(draw(walks(session=f"s-{number}.1"))) for number in range(3)]
    mixed = []
    while left := [records for records in sessions if records]:
        mixed.append(draw(st.sampled_from(left)).pop(0))
    return mixed


def test_a_whole_run_at_a_story_is_sound() -> None:
    story = history(
        "WAITING", "SETUP", "PLANNING", "PLAN_REVIEW", "CODING", "SUSPEND", "SUSPEND", "CODING", "CODING", "TESTING",
        "CODING", "BUDGET_REVIEW", "CODING", "TESTING", "CODE_REVIEW", "AWAIT_MERGE", "DONE",
    )  # fmt: skip

    assert list(verify(story)) == []


def test_an_empty_history_is_sound() -> None:
    assert list(verify([])) == []


def test_an_offence_names_the_record_and_what_is_wrong() -> None:
    records = history("WAITING", "SETUP", "CODING")

    offences = list(verify(records))

    reason = "coder: SETUP → CODING is not an edge; SETUP leads to PLANNING, ERROR, SUSPEND"
    assert offences == [Offence(transition=records[1], rule="edge", reason=reason)]


def test_numbers_count_up_from_one_without_a_gap() -> None:
    first, second, third = history("WAITING", "WAITING", "WAITING", "WAITING")

    assert rules([second, third]) == [(2, "number")]
    assert rules([first, third]) == [(3, "number")]
    assert rules([first, first, second]) == [(1, "number")]


def test_a_session_begins_in_its_machines_initial_state() -> None:
    assert rules(history("SETUP", "PLANNING")) == [(1, "start")]


def test_a_record_begins_where_the_last_one_ended() -> None:
    first, second, third = history("WAITING", "SETUP", "PLANNING", "PLAN_REVIEW")
    elsewhere = msgspec.structs.replace(second, state_from="BUDGET_REVIEW")

    assert rules([first, elsewhere, third]) == [(2, "start")]


def test_suspend_leads_back_only_to_where_the_history_says_it_came_from() -> None:
    assert rules(history("WAITING", "SETUP", "SUSPEND", "SUSPEND", "SETUP")) == []
    assert rules(history("WAITING", "SETUP", "SUSPEND", "ERROR")) == []
    assert rules(history("WAITING", "SETUP", "SUSPEND", "PLANNING")) == [(3, "edge")]


def test_where_an_earlier_suspend_came_from_does_not_count() -> None:
    assert rules(history("WAITING", "SUSPEND", "WAITING", "SETUP", "SUSPEND", "WAITING")) == [(5, "edge")]


@pytest.mark.parametrize("end", ["DONE", "ERROR"])
def test_nothing_but_staying_follows_the_end_of_a_session(end: str) -> None:
    run = history("WAITING", "SETUP", "PLANNING", "PLAN_REVIEW", end, end, "WAITING")

    assert rules(run) == [(6, "edge")]


def test_a_fault_is_reported_once_and_what_follows_is_judged_on_its_own() -> None:
    run = history("WAITING", "PLANNING", "PLAN_REVIEW", "CODING", "DONE")

    assert rules(run) == [(1, "edge"), (4, "edge")]


def test_a_machine_that_does_not_exist_is_an_offence_and_the_rest_is_still_checked() -> None:
    stranger = history("WAITING", "SETUP", name="tester")
    wrong = history("WAITING", "CODING")

    offences = list(verify([*stranger, *wrong]))

    assert [(offence.transition, offence.rule) for offence in offences] == [
        (stranger[0], "machine"),
        (wrong[0], "edge"),
    ]
    assert "'tester'" in offences[0].reason


def test_sessions_of_the_same_name_in_two_machines_are_two_sessions() -> None:
    coder = history("WAITING", "SETUP", session="main")
    architect = history("WAITING", "SETUP", "REQUEST", name="architect", session="main")

    assert rules([*coder, *architect]) == []


def test_offences_come_while_the_history_is_still_being_read() -> None:
    def endless() -> Iterator[Transition]:
        yield from history("WAITING", "CODING")
        raise AssertionError("read on although an offence was due")

    assert next(verify(endless())).rule == "edge"


@quick
@given(walks())
def test_a_walk_along_the_edges_is_sound(walk: list[Transition]) -> None:
    assert list(verify(walk)) == []


@quick
@given(interleaved_walks())
def test_interleaved_sessions_do_not_disturb_each_other(mixed: list[Transition]) -> None:
    assert list(verify(mixed)) == []


@quick
@given(corrupted_walks())
def test_any_single_corrupted_step_is_reported(walk: list[Transition]) -> None:
    assert list(verify(walk)) != []


@quick
@given(walks(), st.data())
def test_a_last_step_that_is_no_edge_is_reported(walk: list[Transition], data: st.DataObject) -> None:
    last = walk[-1]
    origin = next((step.state_from for step in reversed(walk[:-1]) if step.state_from != step.state_to == SUSPEND), "")
    table = machine(last.machine)
    refused = [state for state in (*table.states, SUSPEND) if not table.allows(last.state_from, state, origin)]
    wrong = msgspec.structs.replace(last, state_to=data.draw(st.sampled_from(refused)))

    assert [(offence.transition, offence.rule) for offence in verify([*walk[:-1], wrong])] == [(wrong, "edge")]
