"""What people read of a machine is printed from its table."""

import re

import msgspec
import pytest

from protocol.machine import Machine
from protocol.machines import EDITIONS, MACHINES, machine
from protocol.pages import as_json, index, mermaid, page, table

every_machine = pytest.mark.parametrize("name", MACHINES)

LIGHT = Machine(
    name="light",
    purpose="Shines until it is switched off.",
    initial="ON",
    states={"ON": "Shines.", "DONE": "Is dark.", "ERROR": "Is broken."},
    edges={"ON": {"DONE": "switched off", "ERROR": "burnt out"}, "DONE": {}, "ERROR": {"ON": "repaired"}},
)


def edges_of(name: str) -> set[tuple[str, str, str]]:
    return {(here, there, label) for here, row in machine(name).edges.items() for there, label in row.items()}


def test_the_json_of_a_machine() -> None:
    assert as_json(LIGHT) == {
        "name": "light",
        "initial": "ON",
        "terminal": ["DONE"],
        "states": ["ON", "DONE", "ERROR"],
        "edges": [["ON", "DONE", "switched off"], ["ON", "ERROR", "burnt out"], ["ERROR", "ON", "repaired"]],
    }


@every_machine
def test_the_json_has_the_documents_states_and_edges_without_staying_and_suspend(name: str) -> None:
    shown = msgspec.json.decode(msgspec.json.encode(as_json(machine(name))))

    assert list(shown) == ["name", "initial", "terminal", "states", "edges"]
    assert {tuple(edge) for edge in shown["edges"]} == edges_of(name)
    assert len(shown["edges"]) == len(edges_of(name))
    assert "SUSPEND" not in shown["states"]


def test_the_diagram_of_a_machine() -> None:
    assert mermaid(LIGHT) == (
        "stateDiagram-v2\n"
        "    [*] --> ON\n"
        "    ON --> DONE : switched off\n"
        "    ON --> ERROR : burnt out\n"
        "    ERROR --> ON : repaired\n"
        "    DONE --> [*]\n"
    )


@every_machine
def test_the_diagram_draws_every_edge_once(name: str) -> None:
    drawn = re.findall(r"^    (\w+) --> (\w+) : (.+)$", mermaid(machine(name)), re.MULTILINE)

    assert sorted(drawn) == sorted(edges_of(name))


def test_the_table_of_a_machine() -> None:
    assert table(LIGHT) == (
        "| from | to | when |\n"
        "| --- | --- | --- |\n"
        "| ON | DONE | switched off |\n"
        "| ON | ERROR | burnt out |\n"
        "| ERROR | ON | repaired |\n"
    )


@every_machine
def test_a_page_has_diagram_states_edges_and_ways_to_error(name: str) -> None:
    shown = page(machine(name))

    assert machine(name).purpose in shown
    assert mermaid(machine(name)) in shown
    assert table(machine(name)) in shown
    assert all(f"| {state} | {purpose} |\n" in shown for state, purpose in machine(name).states.items())
    assert "| SUSPEND | SUSPEND → ERROR |\n" in shown


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("architect-classic", "| DISPATCHING | DISPATCHING → MONITORING → REQUEST → ERROR |"),
        ("coder", "| DONE | none: the session is over |"),
        ("pm", "| ERROR | is there |"),
    ],
)
def test_a_page_says_how_a_failure_gets_to_error(name: str, row: str) -> None:
    assert row in page(machine(name)).splitlines()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("architect", "A session begins in WAITING; no state ends it."),
        ("coder", "A session begins in WAITING; DONE and ERROR end it."),
        ("pm", "A session begins in WAITING; DONE ends it."),
    ],
)
def test_a_page_says_what_ends_a_session(name: str, sentence: str) -> None:
    assert sentence in page(machine(name)).splitlines()


def test_the_index_links_every_machine_under_its_edition() -> None:
    sections = dict(section.split("\n", 1) for section in index().split("## ")[1:])

    linked = {edition: tuple(re.findall(r"\]\(([a-z-]+)\.md\)", text)) for edition, text in sections.items()}

    assert linked == EDITIONS
