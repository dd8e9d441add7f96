"""One actor's process: from the settings to an exit code."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, nullcontext
from typing import Any

import msgspec
import structlog

from actors.errors import LostSessionError
from actors.exits import ActorExit
from actors.hosting.host import Ending
from actors.hosting.part import Part
from actors.hosting.playing import play
from actors.redaction import remember_secrets
from actors.runtime.executors import Executors
from actors.runtime.world import RealWorld, World
from actors.tether import Tether
from bus.errors import BusClosedError, BusUnreachableError, ChannelClosedError, StorageFullError
from bus.opening import open_bus
from bus.settings import Loaded, environment_secrets, settings_secrets

log = structlog.get_logger()

BREAK_OFF_SECONDS = 2.0
"""What a process may take to end when it has nothing more to do, or after the second signal."""

_ENDINGS = {Ending.DONE: ActorExit.DONE, Ending.ERROR: ActorExit.ERROR, Ending.LEFT: ActorExit.LEFT}


async def run_actor(  # noqa: PLR0913 -- what a process is made of, and how it differs in tests and by hand
    part: Part,
    actor: str,
    loaded: Loaded,
    environ: Mapping[str, str],
    *,
    prepare: bool = False,
    tether: int | None = None,
    make_world: Any = RealWorld,
) -> ActorExit:
    """Be an actor until its part is played, somebody tells it to leave, or another process takes its place.

    With `prepare` it first creates on the broker what is missing: for one that is started by hand, before anybody
    else was there. `tether` is the line to its supervisor: at its end the process leaves.
    """
    told = _Told()  # first of all: a broker that does not answer is waited for
    line = None if tether is None else Tether(tether, told.let_go)
    remember_secrets(environment_secrets(environ) | settings_secrets(loaded, environ))
    try:
        async with AsyncExitStack() as stack:
            opening = open_bus(loaded, environ, part.behaviour.role, prepare=False)
            async with open_bus(loaded, environ, "person", migrate=False) if prepare else nullcontext():
                bus = await stack.enter_async_context(opening)
            ready = line.ready if line else None
            prepared = _prepare(part, loaded, environ)
            code = await _play(make_world(bus), prepared, actor, told, loaded.settings.actor.stop_seconds, ready=ready)
    except BusUnreachableError as error:
        log.warning("actor.cut_off", reason=str(error))
        code = ActorExit.UNREACHABLE
    except asyncio.CancelledError:
        if told.code is None:
            raise
        code = told.code
    log.info("actor.ended", exit=code.name.lower())
    told.end_soon(code)
    return code


def _prepare(part: Part, loaded: Loaded, environ: Mapping[str, str]) -> Part:
    """The part as the settings want it, with its equipment."""
    behaviour = msgspec.structs.replace(part.behaviour, suspend_seconds=loaded.settings.actor.suspend_seconds)

    def executors(world: World) -> Executors:
        equipment = part.equipment(world, loaded, environ) if part.equipment else {}
        return {**equipment, **part.executors(world)}

    return msgspec.structs.replace(part, behaviour=behaviour, executors=executors)


async def _play(  # noqa: PLR0913 -- see run_actor
    world: World, part: Part, actor: str, told: "_Told", stop_seconds: float, *, ready: Callable[[], None] | None
) -> ActorExit:
    log.info("actor.started", machine=part.behaviour.machine.name, incarnation=world.incarnation)
    told.let_finish()
    try:
        ending = await play(world, part, actor, told.future, stop_seconds, ready=ready)
    except LostSessionError as error:
        log.warning("actor.fenced", reason=str(error))
        return ActorExit.FENCED
    except (BusClosedError, ChannelClosedError, StorageFullError) as error:
        log.warning("actor.cut_off", reason=str(error))
        return ActorExit.UNREACHABLE
    return told.code if ending is Ending.LEFT and told.code is not None else _ENDINGS[ending]


class _Told:
    """Whether the machine has told the process to leave, or its supervisor is gone.

    The first signal lets it finish what it has in hand, the second breaks it off; while it starts, the first one does.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self._loop.create_future()
        self.code: ActorExit | None = None
        self._has_work = False
        self._task = asyncio.current_task()
        self._loop.add_signal_handler(signal.SIGTERM, self._tell, ActorExit.TERMINATED)
        self._loop.add_signal_handler(signal.SIGINT, self._tell, ActorExit.INTERRUPTED)

    def let_finish(self) -> None:
        """From here on there is something to finish."""
        self._has_work = True

    def let_go(self) -> None:
        """The supervisor is gone."""
        if self.code is None:
            self._tell(ActorExit.LEFT)

    def _tell(self, code: ActorExit) -> None:
        if self.code is None:
            self.code = code
            self.future.set_result(None)
            log.info("actor.leaving", exit=code.name.lower())
            if self._has_work:
                return
        else:
            self.end_soon(self.code)
        if self._task is not None:
            self._task.cancel()

    def end_soon(self, code: ActorExit) -> None:
        """Wait a little for what still runs, as the loop does when it is closed; then no more."""
        self._loop.call_later(BREAK_OFF_SECONDS, self._end, code)

    def _end(self, code: ActorExit) -> None:
        """Something does not let itself be broken off; the next process picks up what was in hand as after a crash."""
        log.warning("actor.broken_off", exit=code.name.lower())
        os._exit(code)
