"""`bus machines` and `bus schema`: what the protocol is, without a broker."""

from enum import StrEnum
from typing import Annotated

import typer

from bus.cli.app import Json, app, show, show_json
from bus.exits import Exit
from protocol.machines import MACHINES, machine
from protocol.pages import as_json, mermaid, table
from protocol.schema import json_schema


class Format(StrEnum):
    """How a machine is shown."""

    TABLE = "table"
    MERMAID = "mermaid"
    JSON = "json"


@app.command(
    epilog="Examples: bus machines · bus machines coder · bus machines pm --format mermaid",
)
def machines(
    name: Annotated[str, typer.Argument(help="The machine; without it all are listed.")] = "",
    form: Annotated[Format, typer.Option("--format", help="How to show it.")] = Format.TABLE,
    json: Json = False,
) -> int:
    """List the state machines, or show one."""
    if not name:
        if json or form is Format.JSON:
            show_json([as_json(each) for each in MACHINES.values()])
        else:
            for each in MACHINES.values():
                edges = sum(len(row) for row in each.edges.values())
                show(f"{each.name:18} {len(each.states):3} states {edges:3} edges")
        return Exit.OK
    chosen = machine(name)
    if json or form is Format.JSON:
        show_json(as_json(chosen))
    else:
        show((mermaid if form is Format.MERMAID else table)(chosen).rstrip("\n"))
    return Exit.OK


@app.command(epilog="Example: bus schema > callboard.schema.json")
def schema() -> int:
    """Print the JSON Schema of everything that travels on the bus."""
    show_json(json_schema())
    return Exit.OK
