"""`supervisor status`: how the company is, on one screen."""

import typer

from actors.thinking.troubles import BUDGET_CHOICES
from bus.cli.flags import Json, person_bus
from bus.cli.output import show_json
from bus.cli.running import run
from bus.exits import Exit
from supervisors.cli.app import app
from supervisors.cli.screen import show_drawn
from supervisors.views.company import render
from supervisors.views.overview import Overview, gather


@app.command(
    epilog="Examples: supervisor status · supervisor status --json · watch supervisor status",
)
def status(context: typer.Context, json: Json = False) -> int:
    """Show how the company is.

    Its health, who is there, in which state, with which work and since when, and what waits for you.

    Exit code: 0 all is well; 1 the company does not run; 4 somebody is suspended or an API is not healthy;
    6 a budget is used up and you are asked how to go on; 5 something else waits for you, or too much has failed.
    The first of these that is so, in the order 1, 4, 6, 5.
    """

    async def work() -> Overview:
        async with person_bus(context) as bus:
            return await gather(bus)

    overview = run(work)
    show_json(overview) if json else show_drawn(render(overview))
    return exit_of(overview)


def exit_of(overview: Overview) -> Exit:
    """What a script should know first."""
    if not overview.running:
        return Exit.FAILED
    if overview.suspended or (overview.health is not None and not overview.health.healthy):
        return Exit.SUSPENDED
    if any(ask.choices == tuple(BUDGET_CHOICES) for ask in overview.asks):
        return Exit.BUDGET
    return Exit.NEEDS_PERSON if overview.asks or overview.gave_up else Exit.OK
