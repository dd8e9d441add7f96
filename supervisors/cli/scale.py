"""`supervisor scale`: more or fewer actors of a role."""

from typing import Annotated

import msgspec
import typer

from bus.bus import Bus
from bus.cli.failures import CommandError
from bus.cli.flags import Json, loaded_settings, person_bus
from bus.cli.output import one_line, show, show_json
from bus.cli.running import run
from bus.cli.usage import number_from
from bus.exits import Exit
from protocol.messages import Scale
from supervisors.cli.app import app
from supervisors.cli.company import change_seconds, running_company, signal, wait_for
from supervisors.core import planning
from supervisors.core.standing import ChildStanding, Standing
from supervisors.errors import ScaleError
from supervisors.office import SUPERVISOR
from supervisors.views.overview import gather, left_on_board, read_standing


class Scaled(msgspec.Struct, frozen=True, kw_only=True):
    """What has become of a role: who was started, who has ended, and which sessions those had in hand."""

    role: str
    size: int
    started: tuple[str, ...]
    ended: tuple[str, ...]
    handed_over: dict[str, tuple[str, ...]]


@app.command(epilog="Examples: supervisor scale coder=8 · supervisor scale coder=0 --json")
def scale(
    context: typer.Context,
    wanted: Annotated[str, typer.Argument(metavar="ROLE=SIZE", help="How many actors of which role.")],
    json: Json = False,
) -> int:
    """Have so many actors of a role, from now on.

    Whoever is not wanted any more finishes the step in hand and hands its story over to another. 0 is allowed.
    Exit code 1: it has not come so far in time.
    """
    role, size = _read(wanted)
    loaded = loaded_settings(context)
    try:
        planning.scale(loaded.settings, {}, role, size)
    except ScaleError as error:
        raise CommandError(Exit.USAGE, str(error)) from error

    async def work() -> Scaled:
        async with person_bus(context) as bus:
            return await _scale(bus, role, size, change_seconds(loaded))

    scaled = run(work, if_stopped="the company goes on to that size all the same: `supervisor tree` shows it")
    if json:
        show_json(scaled)
        return Exit.OK
    for name in scaled.started:
        show(one_line(f"{name} was started"))
    for name in scaled.ended:
        sessions = ", ".join(scaled.handed_over.get(name, ()))
        show(one_line(f"{name} has ended{', and handed over ' + sessions if sessions else ''}"))
    show(one_line(f"{role}: {size}"))
    return Exit.OK


def _read(wanted: str) -> tuple[str, int]:
    role, equals, size = wanted.partition("=")
    if not (role and equals):
        raise CommandError(Exit.USAGE, f"say which role and how many, like coder=8, not {wanted!r}")
    try:
        return role, number_from(0)(size)
    except typer.BadParameter as error:
        raise CommandError(Exit.USAGE, f"the size of {role} {error.message}") from error


async def _scale(bus: Bus, role: str, size: int, seconds: float) -> Scaled:
    before = _of_role(await running_company(bus), role)
    work = {actor.name: tuple(each.session for each in actor.work) for actor in (await gather(bus)).actors}
    await signal(bus, Scale(role=role, size=size), SUPERVISOR)

    async def is_so() -> list[ChildStanding] | None:
        standing = await read_standing(bus)
        now = _of_role(standing, role) if standing else []
        if standing is None or len(now) != size or not all(_is_settled(child) for child in now):
            return None
        gone = {child.actor for child in before} - {child.actor for child in now}
        return now if gone.isdisjoint(await left_on_board(bus)) else None  # their work is somebody else's by then

    after = await wait_for(is_so, seconds)
    if after is None:
        sentence = f"there are not {size} of {role} after {seconds:g} s; `supervisor tree` shows how far it has come"
        raise CommandError(Exit.FAILED, sentence)
    names, names_before = [child.name for child in after], [child.name for child in before]
    ended = tuple(name for name in names_before if name not in names)
    return Scaled(
        role=role,
        size=size,
        started=tuple(name for name in names if name not in names_before),
        ended=ended,
        handed_over={name: work[name] for name in ended if work.get(name)},
    )


def _of_role(standing: Standing, role: str) -> list[ChildStanding]:
    return [child for child in standing.children if child.actor.partition(".")[0] == role]


def _is_settled(child: ChildStanding) -> bool:
    """Whether it runs, or is not to be expected soon: that is another matter than the size."""
    return child.phase in ("ready", "over") or child.next_start is not None
