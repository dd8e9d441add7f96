"""The watchman: goes his rounds, looks who makes no progress, and has those recycled.

Whom he suspects stands on the board, so that the next watchman does not begin anew with them.
"""

from collections.abc import Callable

import msgspec
import structlog

from actors.runtime.world import World
from bus.errors import BusClosedError, BusError
from bus.settings.model import Supervision
from protocol.codec import encode
from protocol.marks import message_id
from protocol.messages import AnyPayload, Envelope, Recycle, Restart, SessionStuck
from supervisors.core.progress import Rounds, Suspect, go_round
from supervisors.office import SUPERVISOR
from supervisors.presence import presences

ROUNDS = "supervisor.watchman"
"""The key on the board."""

ROUND_SECONDS = 30.0

log = structlog.get_logger()

_rounds = msgspec.json.Decoder(Rounds)


class Watchman:
    """Looks after all sessions, for ever. `tell` hears who is stuck."""

    def __init__(self, world: World, policy: Supervision, tell: Callable[[AnyPayload], None]) -> None:
        self._world = world
        self._bus = world.bus
        self._policy = policy
        self._tell = tell

    async def run(self) -> None:
        """Never returns. BusClosedError: the connection is gone for good."""
        rounds: Rounds | None = None
        while True:
            try:
                rounds = await self._go_round(await self._last_rounds() if rounds is None else rounds)
            except BusClosedError:
                raise
            except BusError as error:
                log.warning("watchman.held_up", reason=str(error))
            await self._world.sleep(ROUND_SECONDS)

    async def _last_rounds(self) -> Rounds:
        posted = await self._bus.board.get(ROUNDS)
        try:
            return Rounds() if posted is None or posted.value is None else _rounds.decode(posted.value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            log.warning("board.unreadable", key=ROUNDS)
            return Rounds()

    async def _go_round(self, before: Rounds) -> Rounds:
        present = await presences(self._bus)
        beats = {actor: beat for actor, beat in present.items() if beat is not None}
        rounds, changed = go_round(before, beats, self._policy, self._world.now())
        for suspect in changed:
            await self._act_on(suspect)
        if rounds.suspects != before.suspects:
            await self._bus.board.put(ROUNDS, encode(rounds))
        return rounds

    async def _act_on(self, suspect: Suspect) -> None:
        waited = (suspect.at - suspect.since).total_seconds()
        facts = {"machine": suspect.machine, "session": suspect.session, "state": suspect.state}
        log.warning("session.stuck", **facts, waited_seconds=waited, stage=suspect.stage)
        match suspect.stage:
            case "reported":
                self._tell(SessionStuck(**facts, since=suspect.since, waited_seconds=waited))
            case "recycled":
                await self._bus.control.broadcast(
                    _letter(suspect, Recycle(session=suspect.session, record=suspect.records, reason=_why(suspect)))
                )
            case "restarted":
                await self._bus.control.broadcast(_letter(suspect, Restart(reason=_why(suspect))))


def _letter(suspect: Suspect, decision: Recycle | Restart) -> Envelope:
    """The decision, for whoever hosts the session; found twice, it is the same twice."""
    sender = f"{suspect.stage}.{suspect.machine}.{suspect.session}"
    return Envelope(
        id=message_id(sender, suspect.records, 0),
        kind="CONTROL",
        sender=SUPERVISOR,
        recipient=suspect.actor,
        payload=decision,
        sent_at=suspect.at,
    )


def _why(suspect: Suspect) -> str:
    waited = (suspect.at - suspect.since).total_seconds()
    return f"nothing was recorded in {suspect.state} for {waited:.0f} s"
