"""One session for each story: the process takes a story, works on it, and ends with it.

Which story an actor has stands on the board, so that its next process is back at once; should the board be wrong or
late, the work queue and the journal are right.
"""

import msgspec
import structlog

from actors.core.events import Received
from actors.hosting.host import AnyRunner, Ending, Host, ending_of
from actors.runtime.tenure import owner_name
from bus.board import Posted
from bus.work import Assignment
from protocol.codec import encode
from protocol.errors import BadSubjectError
from protocol.subjects import check_id

log = structlog.get_logger()

ACK_PREFIX = "$JS.ACK."
"""Whatever settles a delivery begins so: nothing else is sent to where a board says."""


class Hosted(msgspec.Struct, frozen=True, kw_only=True):
    """What stands on the board of an actor with a story."""

    session: str
    story: str
    ack_subject: str


async def play_each(host: Host) -> Ending:
    """Go on with the story in hand or take one from the queue; when its session is over, so is the process."""
    runner = await _find_story(host) or await _take_story(host)
    assert host.tenure.claim is not None
    with structlog.contextvars.bound_contextvars(story=host.tenure.claim.story):
        await host.perform(runner)
    if runner.is_over:
        await _finish_story(host)
    return ending_of(runner)


async def _find_story(host: Host) -> AnyRunner | None:
    """The story that an earlier process of this actor had, unless somebody else has it by now."""
    board, work = host.world.bus.board, host.world.bus.work
    posted = await board.get(host.board_key)
    hosted = _read(posted)
    if hosted is None:
        if posted is not None:
            log.warning("board.unreadable", key=posted.key)
            await board.take_down(host.board_key)
        return None
    holder = await host.world.bus.leases.holder(work.lease_key(hosted.story))
    predecessor = holder.owner if holder and holder.owner.partition("/")[0] == host.actor else ""
    owner = owner_name(host.world, host.actor)
    claim = await work.claim(hosted.story, hosted.ack_subject, owner, instead_of=predecessor)
    if claim is not None:
        host.tenure.claim = claim
        runner = await host.open(hosted.session)
        if runner.session.n:
            return runner
        # It died between taking the story and the first record: the queue delivers it again.
        await host.tenure.hand_back()
    await board.take_down(host.board_key)
    return None


def _read(posted: Posted | None) -> Hosted | None:
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


async def _take_story(host: Host) -> AnyRunner:
    bus = host.world.bus
    assignment = await _take_assignment(host)
    hosted = Hosted(
        session=f"{assignment.story.story}.{assignment.story.run}",
        story=assignment.story.story,
        ack_subject=assignment.claim.ack_subject,
    )
    await host.world.boundary("board.before")
    await bus.board.put(host.board_key, encode(hosted))
    await host.world.boundary("board.after")
    runner = await host.open(hosted.session)
    runner.offer(
        Received(
            at=host.world.now(),
            message=assignment.envelope,
            inbox="work",
            settles=assignment.claim.ack_subject,
        )
    )
    return runner


async def _take_assignment(host: Host) -> Assignment:
    while True:
        await host.signals.brake_off()
        assignment = await host.world.bus.work.take(owner_name(host.world, host.actor))
        host.tenure.claim = assignment.claim
        if not host.signals.paused:
            return assignment
        await host.tenure.hand_back()  # the brake came on meanwhile, perhaps only here: another may have the story


async def _finish_story(host: Host) -> None:
    await host.world.boundary("finish.before")
    await host.tenure.finish()
    await host.world.boundary("finish.after")
    await host.world.bus.board.take_down(host.board_key)
