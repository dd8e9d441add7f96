"""`bus machines` and `bus schema`: what the protocol is, without a broker."""

from enum import StrEnum
from typing import Annotated

import typer

from bus.cli.app import Json, app
from bus.cli.failures import CommandError
from bus.cli.output import show, show_json
from bus.exits import Exit
from protocol.machine import Machine
from protocol.machines import MACHINES, machine
from protocol.pages import as_json, mermaid, table
from protocol.schema import json_schema


class Format(StrEnum):
    """How a machine is shown."""

    TABLE = "table"
    MERMAID = "mermaid"
    JSON = "json"


@app.command(
    epilog="Examples: bus machines · bus machines coder · bus machines pm --format mermaid · bus machines pm --json",
)
def machines(
    name: Annotated[str, typer.Argument(help="The machine; without it all are listed.")] = "",
    form: Annotated[Format, typer.Option("--format", help="How to show it.")] = Format.TABLE,
    json: Json = False,
) -> int:
    """List the state machines, or show one: its own states and edges, without staying and SUSPEND."""
    form = Format.JSON if json else form
    if name:
        _show_one(machine(name), form)
    else:
        _show_all(form)
    return Exit.OK


def _show_one(chosen: Machine, form: Format) -> None:
    match form:
        case Format.JSON:
            show_json(as_json(chosen))
        case Format.MERMAID:
            show(mermaid(chosen).rstrip("\n"))
        case Format.TABLE:
            show(table(chosen).rstrip("\n"))


def _show_all(form: Format) -> None:
    match form:
        case Format.JSON:
            show_json([as_json(each) for each in MACHINES.values()])
        case Format.MERMAID:
            raise CommandError(Exit.USAGE, f"a diagram shows one machine: name one of {', '.join(MACHINES)}")
        case Format.TABLE:
            for each in MACHINES.values():
                edges = sum(len(row) for row in each.edges.values())
                show(f"{each.name:18} {len(each.states):3} states {edges:3} edges")


@app.command(epilog="Example: bus schema > callboard.schema.json")
def schema(_json: Json = False) -> int:
    """Print the JSON Schema of everything that travels on the bus, with or without --json."""
    show_json(json_schema())
    return Exit.OK
