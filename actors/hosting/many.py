"""Many sessions at once, each named by the messages that belong to it; those that are open stand on the board."""

import asyncio

from actors.core.events import Received
from actors.core.step import is_repeated
from actors.hosting.host import AnyRunner, AnySession, Ending, Host
from actors.runtime.together import end_all, until_first
from bus.mail import Inbox, Letter
from protocol.errors import BadSubjectError
from protocol.messages import Envelope
from protocol.subjects import MailKind, check_id


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
        self._running: dict[str, tuple[AnyRunner, asyncio.Task[AnySession]]] = {}
        self._broken: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    async def play(self) -> Ending:
        prefix = self._host.board_key
        names = [posted.key.removeprefix(f"{prefix}.") async for posted in self._board.all(prefix)]
        try:
            for name in names:
                await self._runner(name)
            kinds = self._host.part.behaviour.pulls
            ending: Ending = await until_first(self._until_broken(), *[self._sort(kind) for kind in kinds])
            return ending
        finally:
            await end_all([task for _, task in self._running.values()])

    async def _until_broken(self) -> Ending:
        return await self._broken

    async def _sort(self, kind: MailKind) -> None:
        """Give each message to its session, one after the other."""
        inbox: Inbox = await self._host.world.bus.mail.inbox(kind, self._host.role, self._host.actor)
        while True:
            await self._host.signals.brake_off()
            letter = await inbox.take()
            while not await self._hand(kind, letter):
                pass  # the session ended just then: its next runner knows

    async def _hand(self, kind: MailKind, letter: Letter) -> bool:
        event = Received(at=self._host.world.now(), message=letter.envelope, inbox=kind)
        name = self._name(letter.envelope)
        if name is None:
            return await self._bury(letter, "it belongs to no session that there could be")
        runner = await self._runner(name)
        if not runner.is_over:
            return await runner.hand(event, letter.acknowledge)
        if not is_repeated(runner.session, event):
            return await self._bury(letter, f"session {name} is over")
        await letter.acknowledge()
        return True

    def _name(self, envelope: Envelope) -> str | None:
        """The session of a message; None for a name that no session can have: it comes from outside."""
        name = self._route(envelope)
        try:
            return None if name is None else check_id(name)
        except BadSubjectError:
            return None

    async def _bury(self, letter: Letter, reason: str) -> bool:
        await self._host.world.bus.dead.bury(letter.delivery, self._host.role, self._host.actor, reason)
        await letter.acknowledge()
        return True

    async def _runner(self, name: str) -> AnyRunner:
        if name in self._running:
            return self._running[name][0]
        runner = await self._host.open(name)
        if not runner.is_over:
            await self._board.put(f"{self._host.board_key}.{name}", b"{}")
            self._running[name] = runner, asyncio.ensure_future(self._perform(name, runner))
        return runner

    async def _perform(self, name: str, runner: AnyRunner) -> AnySession:
        try:
            session = await self._host.perform(runner)
            if runner.is_over:
                await self._board.take_down(f"{self._host.board_key}.{name}")
        except Exception as error:
            if not self._broken.done():
                self._broken.set_exception(error)
            raise
        del self._running[name]
        if not runner.is_over and not self._running and not self._broken.done():
            self._broken.set_result(Ending.LEFT)
        return session
