"""Handing over the story of a coder that is gone for good, so that another takes it at once."""

from actors.hosting.hosted import board_key, claim_hosted, read_hosted
from bus.bus import Bus
from bus.errors import LeaseLostError
from protocol.subjects import Role


async def hand_over(bus: Bus, role: Role, actor: str, owner: str) -> str:
    """Give back the story of an actor whose process has ended and will not be started again; returns it, or "".

    Done twice, or when somebody else has it by now, it changes nothing. `owner` signs the claim in between.
    """
    key = board_key(role, actor)
    hosted = read_hosted(await bus.board.get(key))
    if hosted is None:
        return ""
    claim = await claim_hosted(bus, hosted, actor, owner)
    if claim is not None:
        try:
            await bus.work.hand_back(claim)
        except LeaseLostError:
            claim = None  # somebody was faster
    await bus.board.take_down(key)
    return "" if claim is None else hosted.story
