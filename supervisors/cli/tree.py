"""`supervisor tree`: who watches over whom."""

import typer

from bus.cli.flags import Json, person_bus
from bus.cli.output import show, show_json
from bus.cli.running import run
from bus.exits import Exit
from supervisors.cli.app import app
from supervisors.cli.company import running_company
from supervisors.cli.screen import is_terminal, show_drawn
from supervisors.core.standing import Standing
from supervisors.views.tree import draw, lines


@app.command(epilog="Examples: supervisor tree · supervisor tree --json")
def tree(context: typer.Context, json: Json = False) -> int:
    """Show the tree of supervisors and processes.

    Each with its phase; processes with their numbers, restarts and why they last ended; supervisors with how many
    failures they have counted, and how many they bear.
    """

    async def work() -> Standing:
        async with person_bus(context) as bus:
            return await running_company(bus)

    standing = run(work)
    if json:
        show_json(standing)
    elif is_terminal():
        show_drawn(*draw(standing))
    else:
        show("\n".join(lines(standing)))
    return Exit.OK
