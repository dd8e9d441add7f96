"""Whatever faults come: a turn is recorded whole or not at all, told to the byte, and nothing is held in the end.

The sessions, the journal, the ledger and the SDK are real, the broker is in memory, and all is in one process.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.claude.asking import Asking, Reach
from actors.claude.client import CallLimits, Claude
from actors.claude.providers import Provider
from actors.claude.purse import Purse
from actors.hosting.playing import play
from actors.rehearsal.faults import Fault, Kind
from actors.rehearsal.server import Rehearsal
from actors.runtime.executors import Executors
from actors.runtime.world import RealWorld, World
from actors.thinking.conversation import read_back
from actors.thinking.effects import AskModel
from actors.thinking.request import Profile
from actors.thinking.troubles import Patience
from bus.bus import Bus
from bus.ledger import Ceilings, Reserved, load_prices
from protocol.messages import Envelope, Story
from protocol.record import Record
from protocol.subjects import Subjects
from tests.contract.world import memory_world
from tests.thinking.company import answers, writes
from tests.thinking.thinker import FILE, THINKER

LIMITS = CallLimits(connect_seconds=2.0, stall_seconds=0.15)
PATIENCE = Patience(attempts_max=20, pause_seconds=0.001, pause_seconds_max=0.002, total_seconds=30.0)
KINDS: Sequence[Kind] = (
    *("overloaded", "server_error", "refuse_connection", "no_answer", "slow_first_byte"),
    *("cut", "stall", "sse_error", "no_message_stop", "malformed_json"),
)
FAULTS = st.lists(
    st.builds(
        Fault,
        kind=st.sampled_from(KINDS),
        after_events=st.none() | st.integers(0, 12),
        delay_seconds=st.sampled_from([0.01, 0.3]),
        skips=st.integers(0, 5),
    ),
    max_size=6,
)


class Hasty(RealWorld):
    """The real world, in which first calls do not wait for each other."""

    async def sleep(self, seconds: float) -> None:
        """Wait a little."""
        await asyncio.sleep(min(seconds, 0.01))


class Dying(Hasty):
    """A process that dies when its model has answered for the second time, before that is recorded."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.died = asyncio.get_running_loop().create_future()
        self._answers = 0

    async def boundary(self, name: str) -> None:
        if name == "effect.after":
            self._answers += 1
        if self._answers == 2:
            self.died.set_result(None)
            await asyncio.get_running_loop().create_future()


class Stage:
    """A coder that thinks, its broker and its model."""

    def __init__(self, bus: Bus, model: Rehearsal, folder: Path) -> None:
        self.bus = bus
        self.model = model
        self._folder = folder
        self._claude = Claude(LIMITS)

    @classmethod
    @asynccontextmanager
    async def set(cls, *faults: Fault) -> AsyncIterator["Stage"]:
        """Set it, with a story on the queue."""
        with tempfile.TemporaryDirectory() as folder:
            os.environ["OUTSIDE"] = folder
            async with (
                memory_world(Subjects("faults"), fence_first=True) as broker,
                Rehearsal(writes(), faults) as model,
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
            lambda _: Profile(model="claude-sonnet-5-5", max_tokens=1000),
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


@settings(max_examples=15, deadline=None)
@given(FAULTS)
def test_a_turn_is_recorded_whole_or_not_at_all(faults: list[Fault]) -> None:
    asyncio.run(_think(faults))


async def _think(faults: list[Fault]) -> None:
    async with Stage.set(*faults) as stage:
        await stage.play(Hasty(stage.bus))

        records = await stage.records()
        told = answers(records)
        conversation = read_back(records, told[0]["conversation"])
        assert records[-1].state_to == "DONE"
        assert conversation is not None
        assert stage.written == ["line 0", "line 1", "line 2"]
        assert [each["content"] for each in told] == [turn.content for turn in conversation.turns]
        assert all(json.loads(turn.content) for turn in conversation.turns)
        messages = [call for call in stage.model.calls if call.endpoint == "messages"]
        # Whoever has left before a slow answer began may not have been noted yet.
        assert len(told) <= len(messages) <= sum(each.get("tries", 1) for each in told)
        assert len({call.sha256 for call in messages if call.sha256}) == len(told)
        assert (await stage.bus.ledger.read()).holds() == ()


async def test_what_was_paid_and_not_recorded_is_paid_again_and_the_ledger_says_so() -> None:
    async with Stage.set() as stage:
        first = Dying(stage.bus)
        dying = asyncio.ensure_future(stage.play(first))
        await first.died
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)

        await stage.play(Hasty(stage.bus))

        entries = [stored.entry async for stored in stage.bus.ledger.read_entries()]
        repeated = [entry.effect for entry in entries if isinstance(entry, Reserved) and entry.repeats]
        assert len(repeated) == 1
        assert len([call for call in stage.model.calls if call.endpoint == "messages"]) == 7
        assert stage.written == ["line 0", "line 1", "line 2"]


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
