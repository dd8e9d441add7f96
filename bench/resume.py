"""Going on with a session that another process has left, after few records and after many.

One resume: read the last record, rebuild the session, claim the journal with a record of its own, and run again the
effect that was in hand.
"""

import asyncio

from actors.runtime.runner import Runner
from actors.runtime.tenure import Tenure
from actors.runtime.world import RealWorld
from bench.rounds import Pair
from bench.walking import WALKING, Tread, Trodden, Walker
from bench.world import World

LENGTHS = (10, 1_000, 10_000)


async def resume_pairs(world: World) -> list[Pair]:
    """Each greater length beside the shortest; every length has a session of its own on either side."""
    real = RealWorld(world.asker)
    tenure = await Tenure.begin(real, WALKING.role, "resume", dict)
    shortest, *others = LENGTHS
    return [
        Pair(
            raw=Resume(real, tenure, await _left_session(real, tenure, f"r-{length}-short", shortest)),
            ours=Resume(real, tenure, await _left_session(real, tenure, f"r-{length}", length)),
        )
        for length in others
    ]


async def _left_session(world: RealWorld, tenure: Tenure, session: str, records: int) -> str:
    walker = Walker(world, tenure, session)
    await walker.walk(records - 1)
    await walker.end()
    return session


class Resume:
    """One session, resumed again and again."""

    def __init__(self, world: RealWorld, tenure: Tenure, session: str) -> None:
        self._world = world
        self._tenure = tenure
        self._session = session
        self._abandoned: list[asyncio.Task[object]] = []

    async def ready(self, operations: int) -> None:  # noqa: ARG002 -- the port's
        """Clear away the runners of the last round, as if their processes had died."""
        for task in self._abandoned:
            task.cancel()
        await asyncio.gather(*self._abandoned, return_exceptions=True)
        self._abandoned.clear()

    async def act(self) -> None:
        """Resume, until the effect is in hand again."""
        in_hand = asyncio.get_running_loop().create_future()

        async def tread(_: Tread) -> Trodden:
            in_hand.set_result(None)
            await asyncio.get_running_loop().create_future()
            return Trodden()

        entry = await self._world.bus.journal.last(WALKING.machine.name, self._session)
        assert entry is not None
        runner = Runner.resume(self._world, WALKING, {Tread: tread}, entry, self._tenure)
        self._abandoned.append(asyncio.ensure_future(runner.run()))
        await in_hand
