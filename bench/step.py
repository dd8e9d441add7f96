"""A durable step of the production runner against the acknowledged publish that it needs, of the same bytes.

Once as it is felt: from the event to the effect, each step on its own. Once as it adds up: steps that follow each other
without a pause, so that what the runtime does after an effect has begun, its line in the log above all, counts too.
"""

from nats.js.api import RetentionPolicy

from actors.runtime.tenure import Tenure
from actors.runtime.world import RealWorld
from bench.rounds import Pair
from bench.walking import WALKING, Walker
from bench.world import World

SESSION = "walk"


async def step_pairs(world: World) -> list[Pair]:
    """A step, and a step in a row: each decided, recorded and followed up, or only published."""
    await world.ensure_raw_stream("journal", RetentionPolicy.LIMITS)
    real = RealWorld(world.asker)
    walker = Walker(real, await Tenure.begin(real, WALKING.role, SESSION, dict), SESSION)
    await walker.walk(1)
    return [Pair(raw=RawStep(world), ours=Step(walker)), Pair(raw=RawStep(world), ours=StepInRow(walker))]


class Step:
    """Event, decision, record, effect."""

    def __init__(self, walker: Walker) -> None:
        self._walker = walker

    async def ready(self, operations: int) -> None:
        """Nothing is prepared: the record is made from the event."""

    async def laps(self, operations: int) -> list[float]:
        """So many steps, with a rest after each."""
        return [await self._walker.latency() for _ in range(operations)]


class StepInRow:
    """The same, and each effect is the event of the next step."""

    def __init__(self, walker: Walker) -> None:
        self._walker = walker

    async def ready(self, operations: int) -> None:
        """Nothing is prepared: the record is made from the event."""

    async def laps(self, operations: int) -> list[float]:
        """So many steps."""
        return await self._walker.laps(operations)


class RawStep:
    """The bytes that our last step has stored, published again with nats-py, without id or fence."""

    def __init__(self, world: World) -> None:
        self._journal = world.asker.journal
        self._stream = world.raw_asker
        self._subject = f"{world.raw_name}.journal.{SESSION}"
        self._data = b""

    async def ready(self, operations: int) -> None:  # noqa: ARG002 -- the port's
        """Look up what our side has stored last."""
        entry = await self._journal.last(WALKING.machine.name, SESSION)
        assert entry is not None
        self._data = entry.data

    async def act(self) -> None:
        """Publish and wait for the acknowledgement."""
        await self._stream.publish(self._subject, self._data)
