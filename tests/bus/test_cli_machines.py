"""`bus machines` and `bus schema`: what the protocol is, for people and programs."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bus.cli.commands import app
from bus.exits import Exit
from protocol.codec import encode
from protocol.errors import UnknownMachineError
from protocol.machines import MACHINES
from protocol.pages import as_json, mermaid, table
from tests.bus.command import NOWHERE, Done, Person
from tests.contract.samples import a_record

GOLDEN = Path(__file__).parents[1] / "protocol" / "golden.jsonl"
COUNTS = {"architect-classic": 13, "architect": 17, "coder-classic": 27, "coder": 23, "pm": 15}


def bus(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def test_all_machines_are_listed() -> None:
    listed, as_data = bus("machines"), bus("machines", "--format", "json")

    rows = [line.split() for line in listed.stdout.splitlines()]
    assert {row[0]: int(row[3]) for row in rows} == COUNTS
    assert json.loads(as_data.stdout) == [as_json(machine) for machine in MACHINES.values()]
    assert bus("machines", "--json").stdout == as_data.stdout


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_is_shown_in_every_format(name: str) -> None:
    found = json.loads(bus("machines", name, "--format", "json").stdout)

    assert list(found) == ["name", "initial", "terminal", "states", "edges"]
    assert (found["name"], found["initial"], len(found["edges"])) == (name, "WAITING", COUNTS[name])
    assert "SUSPEND" not in found["states"]
    assert all(len(edge) == 3 and edge[0] != edge[1] and "SUSPEND" not in edge for edge in found["edges"])
    assert json.loads(bus("machines", name, "--json").stdout) == found
    assert bus("machines", name).stdout == bus("machines", name, "--format", "table").stdout == table(MACHINES[name])
    assert bus("machines", name, "--format", "mermaid").stdout == mermaid(MACHINES[name])


def test_the_terminal_states_are_those_that_end_a_session() -> None:
    found = {name: json.loads(bus("machines", name, "--json").stdout)["terminal"] for name in MACHINES}

    assert found == {
        "architect-classic": [],
        "architect": [],
        "coder-classic": ["DONE", "ERROR"],
        "coder": ["DONE", "ERROR"],
        "pm": ["DONE"],
    }


def test_a_diagram_without_a_machine_and_an_unknown_machine_are_refused() -> None:
    diagram, unknown = bus("machines", "--format", "mermaid"), bus("machines", "tester")
    form = bus("machines", "--format", "svg")
    both = bus("machines", "pm", "--json", "--format", "mermaid")

    assert "name one of pm, architect, coder" in str(diagram.exception)
    assert isinstance(unknown.exception, UnknownMachineError)
    assert form.exit_code == Exit.USAGE
    assert str(both.exception) == "--json and --format mermaid contradict each other: leave one out"


async def test_the_process_says_the_same_without_a_broker_or_a_home(tmp_path: Path) -> None:
    offline = Person(tmp_path, NOWHERE)

    shown = await offline.bus("machines", "pm", "--json", environ={"HOME": ""})
    unknown = await offline.bus("machines", "tester", "--json")

    assert shown == Done(code=0, out=bus("machines", "pm", "--json").stdout, err="")
    assert (unknown.code, unknown.data["error"]) == (2, "usage")
    assert "the machines are pm, architect, coder" in unknown.err


def test_the_schema_is_json_schema_and_holds_for_all_that_is_said() -> None:
    document = json.loads(bus("schema").stdout)
    messages = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]

    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert len(messages) >= 25
    for value in (*messages, json.loads(encode(a_record()))):
        assert matches(document, document, value), value


def test_no_description_in_the_schema_is_indented_like_the_source() -> None:
    definitions = json.loads(bus("schema").stdout)["$defs"].values()

    lines = [line for each in definitions for line in each.get("description", "").splitlines()]

    assert len(lines) > len(definitions)
    assert [line for line in lines if line != line.strip()] == []


@pytest.mark.parametrize(
    "change",
    [{"kind": "SHOUT"}, {"id": 1}, {"payload": {"payload": "unheard_of"}}, {"sent_at": None}],
    ids=str,
)
def test_the_schema_refuses_what_is_not_a_message(change: dict[str, Any]) -> None:
    document = json.loads(bus("schema").stdout)
    message = json.loads(GOLDEN.read_text(encoding="utf-8").splitlines()[0])

    assert not matches(document, document, {**message, **change})


TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
NOTES = {"$schema", "$defs", "title", "description", "default", "format", "discriminator"}


def matches(document: dict[str, Any], schema: dict[str, Any], value: Any) -> bool:
    """Whether a value is what a schema asks for; fails on a keyword or a reference that nobody could understand."""
    for keyword, rule in schema.items():
        match keyword:
            case "$ref":
                ok = matches(document, document["$defs"][rule.removeprefix("#/$defs/")], value)
            case "anyOf":
                ok = any(matches(document, each, value) for each in rule)
            case "type":
                ok = isinstance(value, TYPES[rule]) and not (rule == "integer" and isinstance(value, bool))
            case "enum":
                ok = value in rule
            case "minimum":
                ok = value >= rule
            case "required":
                ok = set(rule) <= set(value)
            case "items":
                ok = all(matches(document, rule, each) for each in value)
            case "properties":
                ok = all(matches(document, rule[name], value[name]) for name in rule if name in value)
            case "additionalProperties":
                known = schema.get("properties", {})
                ok = all(matches(document, rule, value[name]) for name in value if name not in known)
            case _:
                assert keyword in NOTES, f"what is {keyword}?"
                ok = True
        if not ok:
            return False
    return True
