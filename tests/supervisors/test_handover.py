"""Handing over what a coder has left behind, while its successor is on its way."""

from actors.hosting.hosted import ACK_PREFIX, Hosted, board_key
from bus.board import Posted
from bus.bus import Bus
from protocol.codec import encode
from supervisors.clerk.handover import find_left, hand_over

HOSTED = Hosted(session="s-1.1", story="s-1", ack_subject=f"{ACK_PREFIX}x.y.1.1.1.1.1")
KEY = board_key("coder", "coder-8")


async def test_nothing_is_taken_from_the_successor_of_whoever_has_left_it(project_bus: Bus) -> None:
    """The pool has shrunk and grown again, and the next coder of that name goes on with its story."""
    lease_key = project_bus.work.lease_key("s-1")
    await project_bus.leases.acquire(lease_key, "coder-8/first")
    await project_bus.board.put(KEY, encode(HOSTED))

    left = await find_left(project_bus, "coder", "coder-8")
    await project_bus.leases.acquire(lease_key, "coder-8/second", instead_of="coder-8/first")
    revision = await project_bus.board.put(KEY, encode(HOSTED))
    assert left is not None
    story = await hand_over(project_bus, left, "coder-8/supervisor")

    holder = await project_bus.leases.holder(lease_key)
    assert (story, holder.owner if holder else "") == ("", "coder-8/second")
    assert await project_bus.board.get(KEY) == Posted(key=KEY, value=encode(HOSTED), revision=revision)
