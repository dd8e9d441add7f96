"""One session for each story: the process takes a story, works on it, and ends with it.

Which story an actor has stands on the board, so that its next process is back at once; should the board be wrong or
late, the work queue and the journal are right.
"""

import structlog

from actors.core.events import Received
from actors.hosting.host import AnyRunner, Ending, Host, ending_of
from actors.hosting.hosted import Hosted, claim_hosted, read_hosted
from actors.runtime.tenure import owner_name
from bus.work import Assignment
from protocol.codec import encode

log = structlog.get_logger()


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
    board = host.world.bus.board
    posted = await board.get(host.board_key)
    hosted = read_hosted(posted)
    if hosted is None:
        if posted is not None:
            log.warning("board.unreadable", key=posted.key)
            await board.take_down(host.board_key)
        return None
    claim = await claim_hosted(host.world.bus, hosted, host.actor, owner_name(host.world, host.actor))
    if claim is not None:
        host.tenure.claim = claim
        runner = await host.open(hosted.session)
        if runner.session.n:
            return runner
        # It died between taking the story and the first record: the queue delivers it again.
        await host.tenure.hand_back()
    await board.take_down(host.board_key)
    return None


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
    """Nothing is taken while a person holds the brake or an API is not healthy."""
    bus = host.world.bus
    while True:
        await host.signals.brake_off()
        await bus.health.until_healthy()
        assignment = await bus.work.take(owner_name(host.world, host.actor))
        host.tenure.claim = assignment.claim
        if await bus.health.is_healthy() and not host.signals.paused:
            return assignment
        await host.tenure.hand_back()  # it came so meanwhile, perhaps only here: another may have the story


async def _finish_story(host: Host) -> None:
    await host.world.boundary("finish.before")
    await host.tenure.finish()
    await host.world.boundary("finish.after")
    await host.world.bus.board.take_down(host.board_key)
