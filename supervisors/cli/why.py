"""`supervisor why`: why somebody is where it is, and what comes next."""

from typing import Annotated

import typer

from bus.bus import Bus
from bus.cli.failures import CommandError
from bus.cli.flags import Json, person_bus
from bus.cli.output import show, show_json
from bus.cli.running import run
from bus.exits import Exit
from supervisors.cli.app import app
from supervisors.views.overview import gather
from supervisors.views.why import Why, gather_why, known_names, lines


@app.command(
    epilog="Examples: supervisor why coder-1 · supervisor why coder.coder-1 · supervisor why s-1.1 · "
    "supervisor why s-1 --json",
)
def why(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="ID", help="A name in the tree, an actor's address, a session or a story.")
    ],
    json: Json = False,
) -> int:
    """Explain where somebody is.

    What it waits for and what happens next, its last transitions, its last error with the evidence, and how its last
    processes ended. Of a story it is the newest run.
    """

    async def work() -> Why:
        async with person_bus(context) as bus:
            return await gather_why(bus, name) or await _unknown(bus, name)

    found = run(work)
    show_json(found) if json else show("\n".join(lines(found)))
    return Exit.OK


async def _unknown(bus: Bus, name: str) -> Why:
    overview = await gather(bus)
    names = ", ".join(known_names(overview)) or "nobody"
    hint = "" if overview.running else "; the company does not run: `supervisor up` starts it"
    there = f"nothing in project {bus.subjects.project} is called {name!r}; there is {names}{hint}"
    raise CommandError(Exit.FAILED, there)
