"""`bus machines` and `bus schema`: what the protocol is, without a broker."""

from typing import Annotated

import typer

from bus.cli.app import app
from bus.cli.failures import CommandError
from bus.cli.flags import Json
from bus.cli.output import show, show_json
from bus.cli.usage import one_of
from bus.exits import Exit
from protocol.machine import Machine
from protocol.machines import MACHINES, machine
from protocol.pages import as_json, mermaid, table
from protocol.schema import json_schema

TABLE, MERMAID, JSON = FORMATS = ("table", "mermaid", "json")


@app.command(
    epilog="Examples: bus machines · bus machines coder · bus machines pm --format mermaid · bus machines pm --json",
)
def machines(
    name: Annotated[str, typer.Argument(help="The machine; without it all are listed.")] = "",
    form: Annotated[
        str | None,
        typer.Option(
            "--format", parser=one_of(*FORMATS), metavar="|".join(FORMATS), help="How to show it (default: table)."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """List the state machines, or show one.

    Shown are its own states and edges, without staying and SUSPEND.
    """
    if json and form not in (None, JSON):
        raise CommandError(Exit.USAGE, f"--json and --format {form} contradict each other: leave one out")
    form = JSON if json else form or TABLE
    if name:
        _show_one(machine(name), form)
    else:
        _show_all(form)
    return Exit.OK


def _show_one(chosen: Machine, form: str) -> None:
    if form == JSON:
        show_json(as_json(chosen))
    else:
        show((mermaid if form == MERMAID else table)(chosen).rstrip("\n"))


def _show_all(form: str) -> None:
    if form == MERMAID:
        raise CommandError(Exit.USAGE, f"a diagram shows one machine: name one of {', '.join(MACHINES)}")
    if form == JSON:
        show_json([as_json(each) for each in MACHINES.values()])
        return
    for each in MACHINES.values():
        edges = sum(len(row) for row in each.edges.values())
        show(f"{each.name:18} {len(each.states):3} states {edges:3} edges")


@app.command(epilog="Example: bus schema > callboard.schema.json")
def schema(_json: Json = False) -> int:
    """Print the JSON Schema of all messages and records.

    It is JSON with or without --json.
    """
    show_json(json_schema())
    return Exit.OK
