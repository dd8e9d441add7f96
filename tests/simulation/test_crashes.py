"""Kill -9 and stop-and-wake at every boundary of every actor, by enumeration, in memory.

One story and one interview are played again and again, each time with a crash at another boundary. However it went,
the outcome is the same, each outside result is there once, and what was repeated is within its bound.
"""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from protocol.record import Record
from tests.simulation.loop import Process, VirtualLoop, run_virtual
from tests.simulation.theatre import Theatre

ACTORS = ("coder.coder-1", "architect.main", "pm.main")
SECONDS_MAX = 3600.0
PAIRS = 60

Plan = dict[tuple[str, int], str]
"""What happens to an actor at its boundary number so-and-so."""


class Script:
    """A director with a plan; counts the boundaries of each actor across its processes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.passed: Counter[str] = Counter()
        self.names: dict[tuple[str, int], str] = {}

    def __call__(self, process: Process, name: str) -> str:
        actor = process.name.rpartition("-")[0]
        self.passed[actor] += 1
        place = (actor, self.passed[actor])
        self.names[place] = name
        return self.plan.get(place, "go")


def perform(plan: Plan) -> tuple[Theatre, Script]:
    """Play one story and one interview to the end."""
    script = Script(plan)

    async def main(loop: VirtualLoop) -> Theatre:
        theatre = Theatre(loop, director=script)
        await theatre.open(*ACTORS)
        asyncio.ensure_future(theatre.answer_asks())  # noqa: RUF006 -- the loop keeps all tasks
        await theatre.order("s-1")
        await theatre.talk("talk-1")
        is_over = await theatre.until(lambda: is_quiet(theatre), SECONDS_MAX)
        assert is_over, "\n".join(theatre.monitor.trace[-40:])
        return theatre

    return run_virtual(main), script


def is_quiet(theatre: Theatre) -> bool:
    """Whether both are announced, all mail is settled, and nobody sleeps."""
    kept = [name for name, stream in theatre.server.streams.items() if "MAIL" in name or "WORK" in name]
    is_settled = not any(theatre.server.streams[name].messages for name in kept)
    is_awake = not any(process.is_alive and process.is_stopped for process in theatre.stopped)
    return is_settled and is_awake and len(theatre.outside.announcements) >= 2


def outcome(theatre: Theatre) -> Any:
    """What must be the same however often somebody was killed."""
    theatre.monitor.check_histories()
    return (
        sorted(theatre.outside.announcements.values()),
        sorted(head for head in theatre.outside.trees),
        {session: records[-1].state_to for session, records in theatre.monitor.records.items()},
        {session: steps(records) for session, records in theatre.monitor.records.items() if session != "main"},
    )


def steps(records: list[Record]) -> int:
    """How many records a session has, apart from those by which a successor claims it."""
    return sum(b'"resumed"' not in bytes(record.event) for record in records)


def repeated_payments(theatre: Theatre) -> int:
    counts = Counter(payment.effect for payment in theatre.outside.payments)
    return sum(count - 1 for count in counts.values())


UNDISTURBED, PASSED = perform({})
PLACES = [(actor, number) for actor, last in sorted(PASSED.passed.items()) for number in range(1, last + 1)]


def test_there_is_something_to_crash() -> None:
    names = set(PASSED.names.values())

    assert len(PLACES) > 150
    assert {"append.before", "append.after", "send.before", "send.after", "acknowledge.before"} <= names
    assert {"effect.before", "effect.after", "think.paid", "write.before", "announce.after", "finish.before"} <= names
    assert outcome(UNDISTURBED)[0] == ["approved talk-1", "merged s-1"]


@pytest.mark.parametrize("what", ["kill", "stop"])
@pytest.mark.parametrize("actor", ACTORS)
def test_a_crash_anywhere_changes_nothing_and_repeats_at_most_what_was_in_hand(what: str, actor: str) -> None:
    for place in PLACES:
        if place[0] != actor:
            continue
        theatre, _ = perform({place: what})

        said = f"{what} at {place}: {PASSED.names[place]}"
        assert theatre.monitor.violations == [], said
        assert outcome(theatre) == outcome(UNDISTURBED), said
        assert repeated_payments(theatre) <= 1, said


@pytest.mark.parametrize("seed", range(3))
def test_two_crashes_change_nothing_either(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(PAIRS // 3):
        plan = {place: chance.choice(["kill", "stop"]) for place in chance.sample(PLACES, 2)}
        theatre, _ = perform(plan)

        assert theatre.monitor.violations == [], plan
        assert outcome(theatre) == outcome(UNDISTURBED), plan
        assert repeated_payments(theatre) <= 2, plan
