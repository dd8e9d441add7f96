"""`supervisor restart`: new processes, with the same work."""

from typing import Annotated

import msgspec
import typer

from bus.bus import Bus
from bus.cli.failures import CommandError
from bus.cli.flags import Json, loaded_settings, person_bus
from bus.cli.output import complain, one_line, say, show, show_json
from bus.cli.running import run
from bus.exits import Exit
from protocol.messages import Restart
from protocol.routing import address
from protocol.subjects import ALL
from supervisors.cli.app import app
from supervisors.cli.company import change_seconds, running_company, signal, wait_for
from supervisors.core.standing import ChildStanding, Standing
from supervisors.views.overview import Overview, Work, gather, read_standing


class Restarted(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody before and after; `pid` is 0 where no new process is there yet."""

    name: str
    actor: str
    """Its address, if it is one."""
    pid_before: int
    pid: int
    reason: str = ""
    """Why there is none, as far as it is known."""
    work: tuple[Work, ...] = ()


@app.command(epilog="Examples: supervisor restart coder-1 · supervisor restart coder · supervisor restart pm --json")
def restart(
    context: typer.Context,
    who: Annotated[str, typer.Argument(metavar="ID|ROLE", help="A name in the tree, or all of a role.")],
    json: Json = False,
) -> int:
    """Have an actor, a whole role, or a part of the tree begin anew.

    Each finishes the step in hand, and its next process goes on in the same state. It counts as no failure, and starts
    also whoever had been given up. Exit code 1: somebody has not come back in time.
    """
    seconds = change_seconds(loaded_settings(context))

    async def work() -> list[Restarted]:
        async with person_bus(context) as bus:
            return await _restart(bus, who, seconds)

    done = run(work, if_stopped="who was told to begin anew does so all the same: `supervisor status` shows it")
    if json:
        show_json(done)
    for each in done:
        if not each.pid:
            why = each.reason or f"not ready within {seconds:g} s"
            complain(one_line(f"{each.name} has no new process: {why}; `supervisor why {each.name}` says more"))
        elif not json:
            show(one_line(f"{each.name}: process {each.pid_before or '-'} → {each.pid}{_goes_on(each)}"))
    return Exit.OK if all(each.pid for each in done) else Exit.FAILED


def _goes_on(restarted: Restarted) -> str:
    work = ", ".join(f"{each.session} in {each.state}" for each in restarted.work)
    if not restarted.actor:
        return ""
    return f", goes on with {work}" if work else ", waits for work"


async def _restart(bus: Bus, who: str, seconds: float) -> list[Restarted]:
    recipient, children = find_children(await running_company(bus), who)
    await signal(bus, Restart(reason="a person asked for it"), recipient)
    say(one_line(f"told {recipient} to begin anew"))

    async def all_settled() -> Standing | None:
        standing = await read_standing(bus)
        is_so = standing and all(_new_pid(standing, child) or _why_not(standing, child) for child in children)
        return standing if is_so else None

    standing = await wait_for(all_settled, seconds) or await read_standing(bus)
    overview = await gather(bus)
    return [
        Restarted(
            name=child.name,
            actor=child.actor,
            pid_before=child.pid,
            pid=_new_pid(standing, child) if standing else 0,
            reason=_why_not(standing, child) if standing else "the company does not run any more",
            work=_work(overview, child.name),
        )
        for child in children
    ]


def find_children(standing: Standing, who: str) -> tuple[str, list[ChildStanding]]:
    """Whom a name, an address or a role means: where to send a signal, and who begins anew."""
    for child in standing.children:
        if who in (child.name, child.actor):
            return child.actor or address("supervisor", child.name), [child]
    of_role = [child for child in standing.children if child.actor.partition(".")[0] == who]
    if of_role:
        return address(who, ALL), of_role
    if who in {each.name for each in standing.supervisors if each.parent}:
        below = _below(standing, who)
        return address("supervisor", who), [child for child in standing.children if child.supervisor in below]
    roles = (child.actor.partition(".")[0] for child in standing.children)
    names = (*(child.name for child in standing.children), *(each.name for each in standing.supervisors if each.parent))
    known = ", ".join(filter(None, dict.fromkeys((*names, *roles))))
    raise CommandError(Exit.FAILED, f"nobody in the tree and no role is called {who!r}; there is {known or 'none'}")


def _below(standing: Standing, name: str) -> set[str]:
    """A supervisor and all those below it; each stands after its parent."""
    found = {name}
    for each in standing.supervisors:
        if each.parent in found:
            found.add(each.name)
    return found


def _new_pid(standing: Standing, before: ChildStanding) -> int:
    """The number of the process that runs now, once it was started again and is ready."""
    now = _now(standing, before)
    return now.pid if now.phase == "ready" and now.starts > before.starts else 0


def _why_not(standing: Standing, before: ChildStanding) -> str:
    """Why it was started again and will not be any more; empty if it may still come."""
    now = _now(standing, before)
    if now.starts == before.starts or now.phase != "over":
        return ""
    return f"it has ended ({now.last_way or 'nobody knows how'}) {now.last_reason}".strip()


def _now(standing: Standing, before: ChildStanding) -> ChildStanding:
    return next((child for child in standing.children if child.name == before.name), before)


def _work(overview: Overview, name: str) -> tuple[Work, ...]:
    return next((actor.work for actor in overview.actors if actor.name == name), ())
