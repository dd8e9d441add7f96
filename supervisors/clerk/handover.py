"""Handing over the story of a coder that is gone for good, so that another takes it at once."""

import msgspec

from actors.hosting.hosted import Hosted, board_key, read_hosted
from bus.bus import Bus
from bus.errors import LeaseLostError
from protocol.subjects import Role


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What an actor has left behind: its story as it stands on the board, and who of its processes had that."""

    key: str
    revision: int
    hosted: Hosted
    owner: str


async def find_left(bus: Bus, role: Role, actor: str) -> Left | None:
    """The story of an actor that has no process; None if it had none. To be asked before it has one again."""
    posted = await bus.board.get(board_key(role, actor))
    hosted = read_hosted(posted)
    if posted is None or hosted is None:
        return None
    holder = await bus.leases.holder(bus.work.lease_key(hosted.story))
    owner = holder.owner if holder and holder.owner.partition("/")[0] == actor else ""
    return Left(key=posted.key, revision=posted.revision, hosted=hosted, owner=owner)


async def hand_over(bus: Bus, left: Left, owner: str) -> str:
    """Give back a story whose process has ended and will not be started again; returns it, or "".

    Done twice, or when somebody else has it by now, perhaps a next process of that very actor, it changes nothing.
    `owner` signs the claim in between.
    """
    story = left.hosted.story
    claim = await bus.work.claim(story, left.hosted.ack_subject, owner, instead_of=left.owner)
    if claim is not None:
        try:
            await bus.work.hand_back(claim)
        except LeaseLostError:
            claim = None  # somebody was faster
    await bus.board.take_down(left.key, left.revision)
    return "" if claim is None else story
