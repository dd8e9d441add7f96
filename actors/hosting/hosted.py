"""What stands on the board of an actor with a story, and the claim to go on with that story in its place."""

import msgspec

from bus.board import Posted
from bus.bus import Bus
from bus.work import Claim
from protocol.errors import BadSubjectError
from protocol.subjects import Role, check_id

ACK_PREFIX = "$JS.ACK."
"""Whatever settles a delivery begins so: nothing else is sent to where a board says."""


class Hosted(msgspec.Struct, frozen=True, kw_only=True):
    """The story of an actor, and its session."""

    session: str
    story: str
    ack_subject: str


def board_key(role: Role, actor: str) -> str:
    """Where on the board it stands which sessions an actor has."""
    return f"actors.{role}.{actor}"


def read_hosted(posted: Posted | None) -> Hosted | None:
    """What an earlier process wrote; None for anything else, since the queue and the journal know better anyway."""
    if posted is None or posted.value is None:
        return None
    try:
        hosted = msgspec.json.decode(posted.value, type=Hosted)
        check_id(hosted.session)
        check_id(hosted.story)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BadSubjectError):
        return None
    return hosted if hosted.ack_subject.startswith(ACK_PREFIX) else None


async def claim_hosted(bus: Bus, hosted: Hosted, actor: str, owner: str) -> Claim | None:
    """Claim an actor's story in place of its earlier processes; None if somebody else has it by now."""
    holder = await bus.leases.holder(bus.work.lease_key(hosted.story))
    predecessor = holder.owner if holder and holder.owner.partition("/")[0] == actor else ""
    return await bus.work.claim(hosted.story, hosted.ack_subject, owner, instead_of=predecessor)
