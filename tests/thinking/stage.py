"""A stage: a coder that thinks in this process, with a broker in memory, the real SDK and a rehearsal of its model."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from actors.claude.asking import Asking, Reach
from actors.claude.client import CallLimits, Claude
from actors.claude.providers import Provider
from actors.claude.purse import Purse
from actors.hosting.playing import play
from actors.rehearsal.faults import Fault
from actors.rehearsal.parts import Part
from actors.rehearsal.server import Rehearsal
from actors.runtime.executors import Executors
from actors.runtime.world import RealWorld, World
from actors.thinking.effects import AskModel
from actors.thinking.request import Profile
from actors.thinking.troubles import Patience
from bus.bus import Bus
from bus.ledger import Ceilings, load_prices
from protocol.messages import Envelope, Story
from protocol.record import Record
from protocol.subjects import Subjects
from tests.contract.world import memory_world
from tests.thinking.company import writes
from tests.thinking.thinker import FILE, THINKER

LIMITS = CallLimits(connect_seconds=2.0, stall_seconds=0.15)
PATIENCE = Patience(attempts_max=20, pause_seconds=0.001, pause_seconds_max=0.002, total_seconds=30.0)


class Hasty(RealWorld):
    """The real world, in which first calls do not wait for each other."""

    async def sleep(self, seconds: float) -> None:
        """Wait a little."""
        await asyncio.sleep(min(seconds, 0.01))


class Stage:
    """A coder that thinks, its broker and its model."""

    def __init__(self, bus: Bus, model: Rehearsal, folder: Path) -> None:
        self.bus = bus
        self.model = model
        self.profile = Profile(model="claude-sonnet-5-5", max_tokens=1000)
        self._folder = folder
        self._claude = Claude(LIMITS)

    @classmethod
    @asynccontextmanager
    async def set(cls, *faults: Fault, parts: Sequence[Part] = ()) -> AsyncIterator["Stage"]:
        """Set it, with a story on the queue."""
        with tempfile.TemporaryDirectory() as folder:
            os.environ["OUTSIDE"] = folder
            async with (
                memory_world(Subjects("faults"), fence_first=True) as broker,
                Rehearsal(parts or writes(), faults) as model,
            ):
                stage = cls(await broker.bus(lease_seconds=20), model, Path(folder))
                await stage.bus.work.put(_story())
                yield stage
                await stage._claude.close()

    async def play(self, world: RealWorld) -> None:
        """Be the coder, to the end of its story."""
        part = msgspec.structs.replace(THINKER, executors=self._executors)
        await play(world, part, "coder-1", asyncio.get_running_loop().create_future())

    def _executors(self, world: World) -> Executors:
        reach = Reach(
            lambda _: Provider(url=self.model.url, key="key"),
            lambda _: self.profile,
        )
        purse = Purse(world, "coder", Ceilings(), load_prices())
        asking = Asking(world, reach, self._claude, purse, PATIENCE)
        return {AskModel: asking.ask, **THINKER.executors(world)}

    async def records(self) -> list[Record]:
        """All steps of the session."""
        return [entry.record() async for entry in self.bus.journal.read("coder", "s-1.1")]

    @property
    def written(self) -> list[str]:
        """What the coder's tools have written."""
        lines = (self._folder / "s-1" / FILE).read_text().splitlines()
        return [line.partition(" ")[2] for line in lines]


def _story() -> Envelope:
    payload = Story(story="s-1", spec="todo", run=1, title="t", description="", acceptance_criteria=())
    return Envelope(
        id="office/1/0",
        kind="REQUEST",
        sender="supervisor.office",
        recipient="coder.all",
        payload=payload,
        sent_at=datetime.now(UTC),
    )
