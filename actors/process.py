"""One actor's process: from the settings to an exit code."""

import asyncio
import signal
from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from actors.errors import LostSessionError
from actors.exits import ActorExit
from actors.hosting.host import Ending
from actors.hosting.part import Part
from actors.hosting.playing import play
from actors.runtime.world import RealWorld, World
from bus.errors import BusClosedError
from bus.opening import open_bus
from bus.settings import Loaded

log = structlog.get_logger()

_ENDINGS = {Ending.DONE: ActorExit.DONE, Ending.ERROR: ActorExit.ERROR, Ending.LEFT: ActorExit.LEFT}


async def run_actor(
    part: Part,
    actor: str,
    loaded: Loaded,
    environ: Mapping[str, str],
    *,
    make_world: Any = RealWorld,
) -> ActorExit:
    """Be an actor until its part is played, somebody tells it to leave, or another process takes its place."""
    settings = loaded.settings.actor
    behaviour = msgspec.structs.replace(part.behaviour, suspend_seconds=settings.suspend_seconds)
    part = msgspec.structs.replace(part, behaviour=behaviour)
    told = _Told()
    async with open_bus(loaded, environ, part.behaviour.role, prepare=False) as bus:
        world: World = make_world(bus)
        log.info("actor.started", machine=behaviour.machine.name, incarnation=world.incarnation)
        code = await _play(world, part, actor, told, settings.stop_seconds)
        log.info("actor.ended", exit=code.name.lower())
        return code


async def prepare_bus(loaded: Loaded, environ: Mapping[str, str]) -> None:
    """Create on the broker what is missing: for an actor that is started by hand, before anybody else was there."""
    async with open_bus(loaded, environ, "person", migrate=False):
        return


async def _play(world: World, part: Part, actor: str, told: "_Told", stop_seconds: float) -> ActorExit:
    try:
        ending = await play(world, part, actor, told.future, stop_seconds)
    except LostSessionError as error:
        log.warning("actor.fenced", reason=str(error))
        return ActorExit.FENCED
    except BusClosedError as error:
        log.warning("actor.cut_off", reason=str(error))
        return ActorExit.UNREACHABLE
    return told.code if ending is Ending.LEFT and told.code is not None else _ENDINGS[ending]


class _Told:
    """Whether the machine has told the process to leave; a second signal ends it at once."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = loop.create_future()
        self.code: ActorExit | None = None
        self._task = asyncio.current_task()
        loop.add_signal_handler(signal.SIGTERM, self._tell, ActorExit.TERMINATED)
        loop.add_signal_handler(signal.SIGINT, self._tell, ActorExit.INTERRUPTED)

    def _tell(self, code: ActorExit) -> None:
        if not self.future.done():
            self.code = code
            self.future.set_result(None)
        elif self._task is not None:
            self._task.cancel()
