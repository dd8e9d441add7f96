"""The machines are the documents: what they allow is held against a transcription that knows nothing of the tables."""

from itertools import pairwise, permutations

import pytest

from protocol.errors import IllegalTransitionError, UnknownMachineError
from protocol.machine import Machine
from protocol.machines import EDITIONS, MACHINES, machine

# Every state in the document's order, and where its diagram, table and matrix together let it go.
DOCUMENTS = {
    "architect-classic": """
        WAITING > SCOPING
        SCOPING > DISPATCHING ERROR
        DISPATCHING > MONITORING DONE
        MONITORING > REQUEST
        REQUEST > MONITORING ESCALATED ERROR
        ESCALATED > REQUEST ERROR
        DONE > WAITING
        ERROR > WAITING
    """,
    "architect": """
        WAITING > SETUP ERROR
        SETUP > REQUEST ERROR
        DISPATCHING > MONITORING DONE
        MONITORING > REQUEST ERROR
        REQUEST > WAITING MONITORING DISPATCHING ESCALATED ERROR
        ESCALATED > REQUEST ERROR
        DONE > WAITING
        ERROR > WAITING
    """,
    "coder-classic": """
        WAITING > SETUP
        SETUP > PLANNING ERROR
        PLANNING > PLAN_REVIEW QUESTION
        PLAN_REVIEW > CODING PLANNING ERROR
        CODING > TESTING QUESTION ERROR
        TESTING > CODE_REVIEW FIXING
        FIXING > TESTING QUESTION ERROR
        CODE_REVIEW > AWAIT_MERGE FIXING ERROR
        AWAIT_MERGE > DONE FIXING
        QUESTION > PLANNING PLAN_REVIEW CODING FIXING CODE_REVIEW ERROR
        DONE >
        ERROR >
    """,
    "coder": """
        WAITING > SETUP ERROR
        SETUP > PLANNING ERROR
        PLANNING > PLAN_REVIEW
        PLAN_REVIEW > CODING PLANNING ERROR DONE
        CODING > TESTING BUDGET_REVIEW ERROR
        TESTING > CODE_REVIEW CODING
        BUDGET_REVIEW > PLANNING CODING ERROR
        CODE_REVIEW > AWAIT_MERGE CODING ERROR
        AWAIT_MERGE > DONE CODING ERROR
        DONE >
        ERROR >
    """,
    "pm": """
        WAITING > INTERVIEWING SUBMITTING DONE
        INTERVIEWING > DRAFTING ERROR DONE
        DRAFTING > SUBMITTING INTERVIEWING ERROR DONE
        SUBMITTING > WAITING ERROR DONE
        DONE >
        ERROR > WAITING DONE
    """,
}

COUNTS = {"architect-classic": 13, "architect": 17, "coder-classic": 27, "coder": 23, "pm": 15}

TERMINAL = {
    "architect-classic": (),
    "architect": (),
    "coder-classic": ("DONE", "ERROR"),
    "coder": ("DONE", "ERROR"),
    "pm": ("DONE",),
}

# The way a failure takes from every state; a dash where there is none.
FAILURES = {
    "architect-classic": """
        WAITING > SCOPING ERROR
        SCOPING > ERROR
        DISPATCHING > MONITORING REQUEST ERROR
        MONITORING > REQUEST ERROR
        REQUEST > ERROR
        ESCALATED > ERROR
        DONE > WAITING SCOPING ERROR
        ERROR >
        SUSPEND > ERROR
    """,
    "architect": """
        WAITING > ERROR
        SETUP > ERROR
        DISPATCHING > MONITORING ERROR
        MONITORING > ERROR
        REQUEST > ERROR
        ESCALATED > ERROR
        DONE > WAITING ERROR
        ERROR >
        SUSPEND > ERROR
    """,
    "coder-classic": """
        WAITING > SETUP ERROR
        SETUP > ERROR
        PLANNING > QUESTION ERROR
        PLAN_REVIEW > ERROR
        CODING > ERROR
        TESTING > FIXING ERROR
        FIXING > ERROR
        CODE_REVIEW > ERROR
        AWAIT_MERGE > FIXING ERROR
        QUESTION > ERROR
        DONE > -
        ERROR >
        SUSPEND > ERROR
    """,
    "coder": """
        WAITING > ERROR
        SETUP > ERROR
        PLANNING > PLAN_REVIEW ERROR
        PLAN_REVIEW > ERROR
        CODING > ERROR
        TESTING > CODING ERROR
        BUDGET_REVIEW > ERROR
        CODE_REVIEW > ERROR
        AWAIT_MERGE > ERROR
        DONE > -
        ERROR >
        SUSPEND > ERROR
    """,
    "pm": """
        WAITING > INTERVIEWING ERROR
        INTERVIEWING > ERROR
        DRAFTING > ERROR
        SUBMITTING > ERROR
        DONE > -
        ERROR >
        SUSPEND > ERROR
    """,
}

# Besides ERROR itself: where the next session, not this one, comes to DONE.
NO_WAY_TO_DONE = {"architect-classic": {"MONITORING", "REQUEST", "ESCALATED"}}

every_machine = pytest.mark.parametrize("name", DOCUMENTS)


def rows(block: str) -> dict[str, tuple[str, ...]]:
    """`A > B C` as {"A": ("B", "C")}, line by line."""
    pairs = [line.split(">") for line in block.strip().splitlines()]
    return {state.strip(): tuple(targets.split()) for state, targets in pairs}


def every_pair() -> list[tuple[str, str, str]]:
    return [(name, *pair) for name, block in DOCUMENTS.items() for pair in permutations(rows(block), 2)]


def reachable(edges: dict[str, tuple[str, ...]], start: str) -> set[str]:
    found, waiting = {start}, [start]
    while waiting:
        new = set(edges[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


def test_there_are_exactly_the_five_machines() -> None:
    assert set(MACHINES) == set(DOCUMENTS)


def test_each_machine_is_filed_under_its_own_name() -> None:
    assert {name: machine(name).name for name in MACHINES} == {name: name for name in MACHINES}


def test_an_edition_is_a_team_and_every_machine_is_in_one() -> None:
    assert EDITIONS == {"standard": ("pm", "architect", "coder"), "classic": ("architect-classic", "coder-classic")}


def test_a_machine_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(UnknownMachineError) as caught:
        machine("tester")

    assert caught.value.name == "tester"
    assert set(caught.value.known) == set(DOCUMENTS)


@pytest.mark.parametrize(("name", "state_from", "state_to"), every_pair())
def test_a_pair_of_states_is_an_edge_of_the_document_or_refused(name: str, state_from: str, state_to: str) -> None:
    drawn = state_to in rows(DOCUMENTS[name])[state_from]

    assert machine(name).allows(state_from, state_to) == drawn
    if drawn:
        machine(name).check(state_from, state_to)
    else:
        with pytest.raises(IllegalTransitionError):
            machine(name).check(state_from, state_to)


@every_machine
def test_the_states_are_the_documents_in_its_order(name: str) -> None:
    assert tuple(machine(name).states) == tuple(rows(DOCUMENTS[name]))


@every_machine
def test_the_table_has_the_documents_edges_and_their_number(name: str) -> None:
    edges = {state: set(row) for state, row in machine(name).edges.items()}

    assert edges == {state: set(targets) for state, targets in rows(DOCUMENTS[name]).items()}
    assert sum(map(len, edges.values())) == COUNTS[name]


@every_machine
def test_a_session_begins_in_waiting_and_ends_where_the_readings_say(name: str) -> None:
    assert machine(name).initial == "WAITING"
    assert machine(name).terminal == TERMINAL[name]


@every_machine
def test_every_state_and_edge_says_what_it_is(name: str) -> None:
    labels = [label for row in machine(name).edges.values() for label in row.values()]

    for text in (machine(name).purpose, *machine(name).states.values(), *labels):
        assert text == text.strip() != ""
        assert not set(text) & set("|\n"), "would break a Markdown table"
    assert not set("".join(labels)) & set(":;#"), "would break a Mermaid label"


@every_machine
def test_staying_is_allowed_everywhere(name: str) -> None:
    for state in (*machine(name).states, "SUSPEND"):
        machine(name).check(state, state)


@every_machine
def test_suspend_is_entered_from_all_states_but_done_error_and_itself(name: str) -> None:
    entered_from = {state for state in machine(name).states if machine(name).allows(state, "SUSPEND")}

    assert entered_from == set(rows(DOCUMENTS[name])) - {"DONE", "ERROR"}
    assert "SUSPEND" not in machine(name).leads_to("SUSPEND", "WAITING")


@every_machine
def test_suspend_leads_only_to_where_it_came_from_or_to_error(name: str) -> None:
    states = set(machine(name).states)

    for origin in states - {"DONE", "ERROR"}:
        left_for = {state for state in states if machine(name).allows("SUSPEND", state, origin)}
        assert left_for == {origin, "ERROR"}


@every_machine
@pytest.mark.parametrize("origin", ["", "DONE", "ERROR", "SUSPEND", "NOWHERE"])
def test_suspend_leads_only_to_error_when_it_cannot_have_come_from_there(name: str, origin: str) -> None:
    assert machine(name).leads_to("SUSPEND", origin) == ("ERROR",)


@every_machine
def test_suspended_from_opens_no_way_out_of_another_state(name: str) -> None:
    known = machine(name).states

    for state in known:
        assert [machine(name).leads_to(state, other) for other in known] == [machine(name).leads_to(state)] * len(known)


@every_machine
@pytest.mark.parametrize(
    ("state_from", "state_to"),
    [("WAITING", "NOWHERE"), ("NOWHERE", "WAITING"), ("NOWHERE", "NOWHERE"), ("NOWHERE", "SUSPEND"), ("", "")],
)
def test_states_that_the_machine_does_not_know_are_refused(name: str, state_from: str, state_to: str) -> None:
    with pytest.raises(IllegalTransitionError):
        machine(name).check(state_from, state_to)


def test_a_refusal_says_what_was_wanted_and_what_there_is() -> None:
    with pytest.raises(IllegalTransitionError) as caught:
        machine("coder").check("PLANNING", "CODING")

    refused = caught.value
    assert (refused.machine, refused.state_from, refused.state_to) == ("coder", "PLANNING", "CODING")
    assert refused.allowed == ("PLAN_REVIEW", "SUSPEND")


@every_machine
def test_a_machine_cannot_be_changed(name: str) -> None:
    table = machine(name)

    with pytest.raises(AttributeError):
        table.initial = "DONE"  # type: ignore[misc]  # The frozen field is what is tested.
    for mapping in (MACHINES, EDITIONS, table.states, table.edges, table.edges["WAITING"], table.ways_to_error):
        with pytest.raises(TypeError):
            mapping["WAITING"] = "DONE"  # type: ignore[index]  # The read-only mapping is what is tested.


def test_a_machine_does_not_follow_changes_to_what_it_was_made_from() -> None:
    edges = {"WAITING": {"DONE": "finished"}, "DONE": {}, "ERROR": {}}
    states = dict.fromkeys(edges, "A state.")
    made = Machine(name="small", purpose="Is small.", initial="WAITING", states=states, edges=edges)

    edges["WAITING"]["ERROR"] = "slipped in"

    assert not made.allows("WAITING", "ERROR")


@pytest.mark.parametrize(
    "edges",
    [
        {"WAITING": {}, "DONE": {}},
        {"WAITING": {"NOWHERE": "lost"}, "DONE": {}, "ERROR": {}},
        {"WAITING": {"WAITING": "stays"}, "DONE": {}, "ERROR": {}},
        {"WAITING": {"SUSPEND": "outage"}, "DONE": {}, "ERROR": {}},
    ],
    ids=["a row missing", "an unknown target", "staying drawn", "SUSPEND drawn"],
)
def test_a_table_that_cannot_be_right_is_not_made(edges: dict[str, dict[str, str]]) -> None:
    states = dict.fromkeys(("WAITING", "DONE", "ERROR"), "A state.")

    with pytest.raises(AssertionError):
        Machine(name="wrong", purpose="Is wrong.", initial="WAITING", states=states, edges=edges)


@every_machine
def test_every_state_is_reachable(name: str) -> None:
    edges = {state: tuple(row) for state, row in machine(name).edges.items()}

    assert reachable(edges, "WAITING") == set(machine(name).states)


@every_machine
def test_done_is_reachable_without_passing_error_from_exactly_where_the_readings_say(name: str) -> None:
    without_error = {
        state: tuple(target for target in row if "ERROR" not in (state, target))
        for state, row in machine(name).edges.items()
    }

    stuck = {state for state in without_error if "DONE" not in reachable(without_error, state)}

    assert stuck == {"ERROR"} | NO_WAY_TO_DONE.get(name, set())


@every_machine
def test_a_failure_reaches_error_by_the_path_of_the_readings(name: str) -> None:
    paths = {state: machine(name).path_to_error(state) for state in (*machine(name).states, "SUSPEND")}

    assert paths == {state: None if path == ("-",) else path for state, path in rows(FAILURES[name]).items()}


@every_machine
def test_every_step_of_a_path_to_error_is_an_edge_and_none_is_suspend(name: str) -> None:
    for state in machine(name).states:
        path = (state, *(machine(name).path_to_error(state) or ()))
        assert all(state_to in machine(name).edges[state_from] for state_from, state_to in pairwise(path))


def test_there_is_no_path_to_error_from_a_state_that_is_not_known() -> None:
    with pytest.raises(IllegalTransitionError):
        machine("coder").path_to_error("NOWHERE")


@every_machine
def test_where_ways_to_error_are_equally_short_the_table_says_which_is_taken(name: str) -> None:
    lengths = {state: len(path) for state in machine(name).states if (path := machine(name).path_to_error(state))}

    tied = {
        state
        for state, length in lengths.items()
        if sum(lengths.get(way) == length - 1 for way in machine(name).edges[state]) > 1
    }

    assert tied == set(machine(name).ways_to_error)
