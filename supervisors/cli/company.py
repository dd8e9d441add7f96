"""What several commands do with a company: find out whether it runs, signal to it, and wait for what follows."""

import asyncio
import secrets
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from bus.bus import Bus
from bus.cli.failures import CommandError
from bus.exits import Exit
from bus.settings import Loaded
from protocol.marks import message_id
from protocol.messages import AnyPayload, Envelope
from protocol.routing import address
from supervisors.core.standing import Standing
from supervisors.views.overview import is_running, read_standing

PERSON = address("person", "person")
POLL_SECONDS = 0.1
MARGIN_SECONDS = 5.0
"""What a supervisor may take to see a signal and to say what it did."""

T = TypeVar("T")


async def running_company(bus: Bus) -> Standing:
    """How its tree stands; CommandError where there is no company to speak to."""
    standing = await read_standing(bus)
    if standing is None or not await is_running(bus, standing):
        sentence = f"the company of project {bus.subjects.project} does not run: `supervisor up` starts it"
        raise CommandError(Exit.FAILED, sentence)
    return standing


async def signal(bus: Bus, payload: AnyPayload, recipient: str) -> int:
    """Send a control signal in the person's name; returns its generation."""
    envelope = Envelope(
        id=message_id(f"person-{secrets.token_hex(8)}", 1, 0),
        kind="CONTROL",
        sender=PERSON,
        recipient=recipient,
        payload=payload,
        sent_at=datetime.now(UTC),
    )
    return await bus.control.broadcast(envelope)


async def wait_for(look: Callable[[], Awaitable[T | None]], seconds: float) -> T | None:
    """Look again and again until there is something to see; None if there is nothing for so long."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        found = await look()
        if found is not None or asyncio.get_running_loop().time() > deadline:
            return found
        await asyncio.sleep(POLL_SECONDS)


def look_for_modules_in(loaded: Loaded) -> None:
    """Find what the settings name as MODULE:NAME in the project and in the working folder, as actors do."""
    sys.path[:0] = [str(loaded.root), str(Path.cwd())]


def change_seconds(loaded: Loaded) -> float:
    """How long processes may take to end and to be followed by others."""
    return loaded.settings.actor.stop_seconds + loaded.settings.supervisor.ready_seconds + MARGIN_SECONDS
