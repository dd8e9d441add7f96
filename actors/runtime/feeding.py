"""Feeding a session with its mail: one message of an inbox at a time, the next when the last one is settled."""

import asyncio
from typing import Any

from actors.core.events import ChannelClosed, Received
from actors.runtime.runner import Runner
from actors.runtime.tenure import Tenure
from actors.runtime.world import World
from bus.errors import ChannelClosedError
from bus.mail import Inbox
from protocol.subjects import MailKind


async def feed(world: World, tenure: Tenure, runner: Runner[Any, Any, Any], inbox: Inbox, kind: MailKind) -> None:
    """Hand over what arrives, in states that take it; for ever, however the channel ends."""
    while True:
        await _until_taken(runner, kind)
        try:
            letter = await inbox.take()
        except ChannelClosedError as error:
            await tenure.renew()  # a successor may have closed it: then it is not for us to say
            runner.offer(ChannelClosed(at=world.now(), inbox=kind, reason=error.reason))
            await asyncio.get_running_loop().create_future()
        else:
            await _until_taken(runner, kind)  # the state may be another one by now, or the brake on
            event = Received(at=world.now(), message=letter.envelope, inbox=letter.inbox(kind))
            await runner.hand(event, letter.acknowledge)


async def _until_taken(runner: Runner[Any, Any, Any], kind: MailKind) -> None:
    while not runner.takes(kind):
        await runner.changed.wait()
