"""Playing a part: which way of hosting it has, and how the process ends."""

import asyncio
from collections.abc import Callable

from actors.hosting.each import play_each
from actors.hosting.host import STOP_SECONDS, Ending, Host, Play, ending_of
from actors.hosting.many import play_many
from actors.hosting.part import Hosting, Part
from actors.runtime.world import World


async def play(  # noqa: PLR0913 -- who plays what, and how it ends
    world: World,
    part: Part,
    actor: str,
    told: "asyncio.Future[None]",
    stop_seconds: float = STOP_SECONDS,
    *,
    ready: Callable[[], None] | None = None,
) -> Ending:
    """Be `actor` until the part is played or `told` is done. LostSessionError: another process is it now.

    `ready` is called once events are taken.
    """
    return await Host(world, part, actor, stop_seconds).run(_PLAYS[part.hosting], told, ready)


async def _play_one(host: Host) -> Ending:
    runner = await host.open(host.actor)
    await host.perform(runner, tuple(host.part.behaviour.pulls))
    return ending_of(runner)


_PLAYS: dict[Hosting, Play] = {"one": _play_one, "each": play_each, "many": play_many}
