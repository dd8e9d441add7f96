"""Whatever faults come: a turn is recorded whole or not at all, told to the byte, and nothing is held in the end.

The sessions, the journal, the ledger and the SDK are real, the broker is in memory, and all is in one process.
"""

import asyncio
import json
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.rehearsal.faults import Fault, Kind
from actors.thinking.conversation import read_back
from bus.bus import Bus
from bus.ledger import Reserved
from tests.thinking.company import answers
from tests.thinking.stage import Hasty, Stage

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
