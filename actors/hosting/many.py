"""Many sessions at once, each named by the messages that belong to it; those that are open stand on the board."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal

import structlog

from actors.core.events import ChannelClosed, Received
from actors.core.step import is_repeated
from actors.errors import UnreadableSessionError
from actors.evidence import reason_of
from actors.hosting.host import AnyRunner, Ending, Host
from actors.runtime.together import end_all, until_first
from bus.errors import ChannelClosedError
from bus.mail import Inbox, Letter
from protocol.errors import BadSubjectError
from protocol.subjects import MailKind, check_id

log = structlog.get_logger()


async def play_many(host: Host) -> Ending:
    """Sort the actor's mail to its sessions until told to leave."""
    return await _Many(host).play()


class _Many:
    """Sessions that come and go."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._board = host.world.bus.board
        assert host.part.route is not None, "only a route tells whose a message is"
        self._route = host.part.route
        self._opening = asyncio.Lock()
        self._running: dict[str, AnyRunner] = {}
        self._unreadable: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._broken: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    async def play(self) -> Ending:
        try:
            for name in await self._names():
                await self._runner(name)
            kinds = self._host.part.behaviour.pulls
            ending: Ending = await until_first(self._until_broken(), *[self._sort(kind) for kind in kinds])
            return ending
        finally:
            await end_all(list(self._tasks.values()))

    async def _names(self) -> list[str]:
        """The sessions that an earlier process had open; what else lies there is taken down."""
        prefix = f"{self._host.board_key}."
        keys = [posted.key async for posted in self._board.all(self._host.board_key)]
        names = [key.removeprefix(prefix) for key in keys]
        for key, name in zip(keys, names, strict=True):
            if not _is_name(name):
                log.warning("board.unreadable", key=key)
                await self._board.take_down(key)
        return [name for name in names if _is_name(name)]

    async def _until_broken(self) -> Ending:
        return await self._broken

    # Mail.

    async def _sort(self, kind: MailKind) -> None:
        """Give each message to its session, one after the other."""
        inbox: Inbox = await self._host.world.bus.mail.inbox(kind, self._host.role, self._host.actor)
        while True:
            await self._host.signals.brake_off()
            letter = await self._take(kind, inbox)
            await self._host.signals.brake_off()  # it may have come on while nothing came
            while not await self._hand(kind, letter):
                pass  # its session was just given up here: the next runner knows what became of it

    async def _take(self, kind: MailKind, inbox: Inbox) -> Letter:
        try:
            return await inbox.take()
        except ChannelClosedError as error:
            for runner in self._running.values():
                runner.offer(ChannelClosed(at=self._host.world.now(), inbox=kind, reason=error.reason))
            for name in tuple(self._tasks):
                await self._until_gone(name)
            raise  # nobody can reach this actor any more

    async def _hand(self, kind: MailKind, letter: Letter) -> bool:
        try:
            name = self._route(letter.envelope)
        except Exception as error:
            return await self._bury(letter, f"its session was not found: {type(error).__name__}: {reason_of(error)}")
        if name is None or not _is_name(name):
            return await self._bury(letter, "it belongs to no session that there could be")
        runner = await self._runner(name)
        if runner is None:
            # It cannot wait here: the mail of all other sessions is behind it.
            return await self._bury(letter, f"session {name} cannot be read: answer its ask, then replay this letter")
        event = Received(at=self._host.world.now(), message=letter.envelope, inbox=letter.inbox(kind))
        if not runner.is_over:
            return await runner.hand(event, letter.acknowledge) or await self._until_gone(name)
        if not is_repeated(runner.session, event):
            return await self._bury(letter, f"session {name} is over")
        await letter.acknowledge()
        return True

    async def _until_gone(self, name: str) -> Literal[False]:
        if name in self._tasks:
            await asyncio.gather(asyncio.shield(self._tasks[name]), return_exceptions=True)
        return False

    async def _bury(self, letter: Letter, reason: str) -> bool:
        host = self._host
        await host.world.bus.dead.bury_and_acknowledge(letter.delivery, host.role, host.actor, reason)
        return True

    # Sessions.

    async def _runner(self, name: str) -> AnyRunner | None:
        """The runner of a session, opened if need be; None while nobody can read it."""
        async with self._opening:  # two kinds of mail may ask for one session at once
            if name in self._unreadable:
                return None
            if name in self._running:
                return self._running[name]
            try:
                runner = await self._host.try_to_open(name)
            except UnreadableSessionError:
                self._unreadable.add(name)
                self._begin(name, self._open_when_readable(name))
                return None
            if not runner.is_over:
                await self._board.put(self._key(name), b"{}")
                self._running[name] = runner
                self._begin(name, self._perform(name, runner))
            return runner

    def _begin(self, name: str, life: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = asyncio.ensure_future(self._watched(life))

    async def _watched(self, life: Coroutine[Any, Any, None]) -> None:
        """What one session raises ends the process: it is lost, or it is a bug."""
        try:
            await life
        except Exception as error:
            if not self._broken.done():
                self._broken.set_exception(error)
            raise

    async def _perform(self, name: str, runner: AnyRunner) -> None:
        await self._host.perform(runner)
        if runner.is_over:
            await self._board.take_down(self._key(name))
        del self._running[name], self._tasks[name]
        if self._host.stopping and not self._running and not self._broken.done():
            self._broken.set_result(Ending.LEFT)

    async def _open_when_readable(self, name: str) -> None:
        """Ask a person about a session in a task of its own, while the others go on."""
        await self._host.open(name)
        self._unreadable.discard(name)
        await self._runner(name)

    def _key(self, name: str) -> str:
        return f"{self._host.board_key}.{name}"


def _is_name(name: str) -> bool:
    """Whether a session can have this name: it comes from outside."""
    try:
        check_id(name)
    except BadSubjectError:
        return False
    return True
