"""How many durable steps per second the simulator does: actors that walk, hosted as in production, monitors on.

The simulator waits for nothing, so on an idle core its processor time is the time that it takes; that is what is
counted, because whoever else keeps the machine busy should not change the figure.
"""

import logging
from statistics import median
from time import thread_time
from typing import Any

import structlog

from actors.hosting.part import Part
from actors.runtime.executors import Executors
from actors.runtime.world import World
from bench.rounds import Comparison
from bench.walking import WALKING, Tread, Trodden
from protocol.messages import ApprovalRequest, Envelope
from tests.simulation.loop import VirtualLoop, run_virtual
from tests.simulation.theatre import Theatre

ACTORS = 8
STEPS = 500
"""Of each actor, in one round."""
ROUNDS = 9
WARM_UP_ROUNDS = 2
STEP_SECONDS_MAX = 1 / 10_000


def measure_simulator() -> Comparison:
    """The median second of a step, and that over what ten thousand steps per second allow."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))  # as `make simulate`
    rounds = [_seconds_per_step() for _ in range(WARM_UP_ROUNDS + ROUNDS)][WARM_UP_ROUNDS:]
    structlog.configure(**before)
    return Comparison(seconds=median(rounds), ratio=median(rounds) / STEP_SECONDS_MAX)


def _seconds_per_step() -> float:
    seconds: float = run_virtual(_play)
    return seconds / (ACTORS * STEPS)


async def _play(loop: VirtualLoop) -> float:
    theatre = Theatre(loop)
    arrived: list[Any] = [loop.create_future() for _ in range(ACTORS)]
    theatre.parts["architect"] = Part(behaviour=WALKING, hosting="one", executors=_Treading(theatre, arrived).executors)
    names = [f"walker-{number}" for number in range(ACTORS)]
    await theatre.open(*(f"architect.{name}" for name in names))
    start = thread_time()
    for number, name in enumerate(names):
        await theatre.office.mail.send(_call(theatre, number, name))
    for each in arrived:
        await each
    seconds = thread_time() - start
    theatre.monitor.check_histories()
    assert not theatre.monitor.violations, theatre.monitor.violations
    assert sum(map(len, theatre.monitor.records.values())) >= ACTORS * STEPS
    return seconds


class _Treading:
    """The executors of each process: a number of steps under the monitors' eyes, then no more."""

    def __init__(self, theatre: Theatre, arrived: list[Any]) -> None:
        self._theatre = theatre
        self._arrived = iter(arrived)

    def executors(self, world: World) -> Executors:
        arrived, left = next(self._arrived), STEPS

        async def tread(effect: Tread) -> Trodden:
            nonlocal left
            self._theatre.outside.touch(effect, world.incarnation)
            left -= 1
            if not left:
                arrived.set_result(None)
                await self._theatre.loop.create_future()
            return Trodden()

        return {Tread: tread}


def _call(theatre: Theatre, number: int, name: str) -> Envelope:
    return Envelope(
        id=f"office/{number + 1}/0",
        kind="REQUEST",
        sender="supervisor.office",
        recipient=f"architect.{name}",
        payload=ApprovalRequest(approval_type="plan", content=""),
        sent_at=theatre.now(),
    )
