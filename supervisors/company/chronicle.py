"""The chronicle: what the supervisor has to tell is recorded as events, in order, without anybody waiting for it."""

import asyncio
from collections import deque

import structlog

from actors.runtime.bell import Bell
from bus.bus import Bus
from bus.errors import BrokerRefusedError, ChannelClosedError, MessageTooLargeError, StorageFullError
from protocol.messages import AnyPayload, Envelope
from supervisors.office import SUPERVISOR, Office

log = structlog.get_logger()

FULL_SECONDS = 5.0
UNTOLD_MAX = 1000
"""What happens while the broker is away is kept, and told when it is back; of more than this the oldest is lost."""


class Chronicle:
    """Events on their way to the broker, each with the time at which it was told."""

    def __init__(self, bus: Bus, office: Office) -> None:
        self._bus = bus
        self._office = office
        self._untold: deque[Envelope] = deque()
        self._changed = Bell()

    def tell(self, payload: AnyPayload) -> None:
        """Record something that has happened."""
        if len(self._untold) == UNTOLD_MAX:
            lost = self._untold[1]  # not the first, which is perhaps being told just now
            del self._untold[1]
            log.warning("event.lost", event_lost=type(lost.payload).__name__)
        self._untold.append(self._office.letter(payload, SUPERVISOR, "EVENT"))
        self._changed.ring()

    async def run(self) -> None:
        """Tell for ever."""
        while True:
            while self._untold:
                await self._send(self._untold[0])
                self._untold.popleft()
            self._changed.ring()
            await self._changed.wait()

    async def finish(self, seconds: float) -> None:
        """Return when everything is told, or when the time is up."""
        try:
            async with asyncio.timeout(seconds):
                while self._untold:
                    await self._changed.wait()
        except TimeoutError:
            log.warning("events.untold", events=len(self._untold))

    async def _send(self, letter: Envelope) -> None:
        """Again and again while there is no room for it; what the broker does not take at all is lost, and said."""
        while True:
            try:
                await self._bus.post.send(self._bus.post.seal(letter))
            except StorageFullError as error:
                log.warning("event.waits", reason=str(error))
                await asyncio.sleep(FULL_SECONDS)
            except (BrokerRefusedError, ChannelClosedError, MessageTooLargeError) as error:
                log.warning("event.lost", event_lost=type(letter.payload).__name__, reason=str(error))
                return
            else:
                return
