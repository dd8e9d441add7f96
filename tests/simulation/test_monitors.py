"""What the monitors let pass and what they do not: acknowledgements, and processes that crash."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from bus.errors import BusClosedError
from bus.mail import Letter
from protocol.record import Record
from tests.simulation.loop import VirtualLoop, run_virtual
from tests.simulation.theatre import CRASHES_MAX, Theatre

NO_RECORD = "no acknowledgement without its record"


def on_stage(play: Callable[[Theatre], Awaitable[Any]], *actors: str) -> Theatre:
    """Play something on a virtual clock, whatever is violated by it."""

    async def main(loop: VirtualLoop) -> Theatre:
        theatre = Theatre(loop)
        await theatre.open(*actors)
        await play(theatre)
        return theatre

    theatre: Theatre = run_virtual(main)
    return theatre


def violated(theatre: Theatre) -> list[str]:
    return [str(violation) for violation in theatre.monitor.violations]


# Acknowledgements.


async def letter_to_pm(theatre: Theatre) -> Letter:
    await theatre.talk("talk-1")
    return await (await theatre.office.mail.inbox("request", "pm", "main")).take()


async def record(theatre: Theatre, machine: str, session: str, message: str, **changes: Any) -> None:
    """The first record of a session, which has received a message."""
    event, after = {"event": "received", "message": {"id": message}}, {"id": session}
    written = Record(
        n=1,
        machine=machine,
        session=session,
        incarnation="somebody",
        at=theatre.now(),
        event=msgspec.Raw(msgspec.json.encode(event)),
        state_from="WAITING",
        state_to="SETUP",
        after=msgspec.Raw(msgspec.json.encode(after)),
    )
    await theatre.office.journal.append(msgspec.structs.replace(written, **changes), 0)


def test_a_message_may_be_acknowledged_once_its_session_has_recorded_it() -> None:
    async def play(theatre: Theatre) -> None:
        letter = await letter_to_pm(theatre)
        await record(theatre, "pm", "talk-1", letter.envelope.id)
        await letter.acknowledge()

    assert violated(on_stage(play)) == []


def test_what_another_session_has_recorded_counts_for_nothing() -> None:
    async def play(theatre: Theatre) -> None:
        letter = await letter_to_pm(theatre)
        await record(theatre, "pm", "talk-2", letter.envelope.id)
        await letter.acknowledge()

    assert violated(on_stage(play)) == [f"{NO_RECORD}: office/1/0 for talk-1"]


def test_a_message_may_be_acknowledged_once_it_is_among_the_dead() -> None:
    async def play(theatre: Theatre) -> None:
        letter = await letter_to_pm(theatre)
        await theatre.office.dead.bury(letter.delivery, "pm", "main", "nobody knows what it means")
        await letter.acknowledge()

    assert violated(on_stage(play)) == []


def test_a_story_stays_on_the_queue_until_its_session_is_over() -> None:
    in_hand = msgspec.Raw(b'{"open":{"s-2.1/1/0":{}}}')

    async def play(theatre: Theatre) -> None:
        for story, changes in (
            ("s-1", {}),
            ("s-2", {"state_to": "DONE", "after": in_hand}),
            ("s-3", {"state_to": "DONE"}),
        ):
            await theatre.order(story)
            assignment = await theatre.office.work.take("somebody")
            await record(theatre, "coder", f"{story}.1", assignment.envelope.id, **changes)
            await theatre.office.work.finish(assignment.claim)

    assert violated(on_stage(play)) == [
        f"{NO_RECORD}: the story of s-1.1, which is not over",
        f"{NO_RECORD}: the story of s-2.1, which is not over",
    ]


# Crashes.


def failing_to_start(theatre: Theatre, error: BaseException, times: int) -> None:
    """Have the architect's next processes fail."""
    genuine, errors = theatre.parts["architect"], iter([error] * times)

    def executors(world: Any) -> Any:
        for raised in errors:
            raise raised
        return genuine.executors(world)

    theatre.parts["architect"] = msgspec.structs.replace(genuine, executors=executors)


def test_a_process_that_crashes_is_a_violation_and_is_started_again() -> None:
    async def play(theatre: Theatre) -> None:
        failing_to_start(theatre, ValueError("no such thing"), times=1)
        theatre.start("architect.main")
        await asyncio.sleep(60)

    theatre = on_stage(play)
    (violation,) = theatre.monitor.violations
    assert str(violation) == "nobody crashes: architect.main-1: ValueError"
    assert violation.details.startswith("ValueError: no such thing\n")
    assert "tests/simulation/test_monitors.py:" in violation.details
    assert theatre.endings == [("architect.main-1", "crashed")]
    assert theatre.processes["architect.main"].is_alive


def test_one_that_does_nothing_but_crash_is_given_up() -> None:
    async def play(theatre: Theatre) -> None:
        failing_to_start(theatre, asyncio.CancelledError(), times=10 * CRASHES_MAX)
        theatre.start("architect.main")
        await asyncio.sleep(60)

    theatre = on_stage(play)
    assert [ending for _, ending in theatre.endings] == ["crashed"] * CRASHES_MAX
    assert len(theatre.monitor.violations) == CRASHES_MAX


def test_one_that_cannot_reach_the_broker_has_not_crashed_and_is_started_again() -> None:
    async def play(theatre: Theatre) -> None:
        failing_to_start(theatre, BusClosedError("gone"), times=1)
        theatre.start("architect.main")
        await asyncio.sleep(60)

    theatre = on_stage(play)
    assert violated(theatre) == []
    assert theatre.endings == [("architect.main-1", "unreachable")]
    assert theatre.processes["architect.main"].is_alive


def test_what_the_world_or_a_callback_fails_to_do_is_no_secret() -> None:
    async def fail() -> None:
        raise KeyError("nothing")

    async def play(theatre: Theatre) -> None:
        theatre.have_done(fail())
        theatre.loop.call_soon(int, "no number")
        await asyncio.sleep(1)

    assert sorted(violated(on_stage(play))) == [
        "nobody crashes: callback: ValueError",
        "nobody crashes: world: KeyError",
    ]
