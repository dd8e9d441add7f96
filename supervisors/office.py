"""The supervisor's office: how what it sends is addressed, dated and numbered."""

from itertools import count

from actors.runtime.world import World
from protocol.marks import message_id
from protocol.messages import AnyPayload, Envelope, Kind
from protocol.routing import address

SUPERVISOR = address("supervisor", "main")


class Office:
    """Letters of one incarnation of the supervisor. It has one office: a number that came twice would be refused."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = count(1)

    def letter(self, payload: AnyPayload, recipient: str, kind: Kind) -> Envelope:
        """An envelope with an id of its own: to be sent again, it is kept and not written anew."""
        return Envelope(
            id=message_id(f"supervisor-{self._world.incarnation}", next(self._numbers), 0),
            kind=kind,
            sender=SUPERVISOR,
            recipient=recipient,
            payload=payload,
            sent_at=self._world.now(),
        )
