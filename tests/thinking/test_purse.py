"""The purse: nothing is called beyond a ceiling, nothing is refused that only has to wait, and a word counts once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from actors.claude.purse import Purse, Wanted
from actors.runtime.world import RealWorld
from actors.thinking.effects import AskModel, Purpose, RaiseBudget
from actors.thinking.errors import DayBudgetError, SpecBudgetError
from actors.thinking.troubles import Refused
from bus.bus import Bus
from bus.ledger import Amount, Ceilings, load_prices
from bus.ledger.amounts import amount_of
from protocol.subjects import Subjects
from tests.contract.world import memory_world

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)


class Watched(RealWorld):
    """A world that lets time pass at once, and others do something meanwhile."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.slept = 0.0
        self.day = NOW

    def now(self) -> datetime:
        return self.day + timedelta(seconds=self.slept)

    def elapsed(self) -> float:
        return self.slept

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        await asyncio.sleep(0)


@pytest.fixture
async def world() -> AsyncIterator[Watched]:
    async with memory_world(Subjects("purse"), fence_first=True) as broker:
        yield Watched(await broker.bus(lease_seconds=20))


def purse_of(world: Watched, **ceilings: Amount) -> Purse:
    return Purse(world, "coder", Ceilings(**ceilings), load_prices())


def wanted(story: int, counts: list[int] | None = None) -> Wanted:
    counts = [] if counts is None else counts

    async def count() -> int:
        counts.append(story)
        return 1000

    purpose = Purpose(role="coder", state="CODING", story=f"s-{story}", spec="todo")
    return Wanted(
        asked=AskModel(id=f"s-{story}.1/1/0", purpose=purpose, says="[]"),
        model="claude-sonnet-5-5",
        prompt_tokens_max=5000,
        max_tokens=1000,
        seconds=900.0,
        repeats=False,
        count=count,
    )


async def test_a_call_waits_for_what_others_hold_and_have_not_spent(world: Watched) -> None:
    purse = purse_of(world, spec=amount_of(minutes=60))
    async with AsyncExitStack() as others:
        for story in range(4):
            await others.enter_async_context(purse.paying(wanted(story)))
        fifth = asyncio.ensure_future(_paid(purse, wanted(5)))
        while world.slept < 60:
            await asyncio.sleep(0)
        assert not fifth.done()

    assert (await fifth).seconds > 800


async def test_a_call_is_not_made_tiny_because_of_what_others_hold(world: Watched) -> None:
    purse = purse_of(world, spec=amount_of(minutes=16))
    async with AsyncExitStack() as others:
        await others.enter_async_context(purse.paying(wanted(1)))
        second = asyncio.ensure_future(_paid(purse, wanted(2)))
        while world.slept < 60:
            await asyncio.sleep(0)
        assert not second.done()

    bill = await second
    assert bill.seconds > 800
    assert 60 <= bill.waited_seconds < 200


async def test_the_ceiling_that_is_in_the_way_is_the_one_that_is_named(world: Watched) -> None:
    """By its size in bytes the prompt would be over that of the story as well."""
    purse = purse_of(world, story=Amount(tokens=5500), day=Amount(tokens=1200))

    with pytest.raises(DayBudgetError):
        await _paid(purse, wanted(1))


async def test_it_waits_no_longer_than_a_call_may_take_and_then_says_why(world: Watched) -> None:
    purse = purse_of(world, spec=amount_of(minutes=15))

    async with purse.paying(wanted(1)):
        counts: list[int] = []
        with pytest.raises(SpecBudgetError, match=r"0\.0 minutes spent, 15\.0 minutes held") as refused:
            await _paid(purse, wanted(2, counts))

    assert 900 <= world.slept < 1000
    assert len(counts) == 1
    assert msgspec.json.decode(refused.value.evidence, type=Refused) == Refused(
        scope="spec", name="todo", raised=Amount()
    )


async def test_what_is_spent_is_waited_for_by_nobody(world: Watched) -> None:
    purse = purse_of(world, day=Amount(tokens=2000))
    async with purse.paying(wanted(1)) as bill:
        bill.usage = msgspec.structs.replace(bill.usage, input_tokens=1500, output_tokens=400)

    with pytest.raises(DayBudgetError, match="1,900 tokens spent"):
        await _paid(purse, wanted(2))
    assert world.slept == 0


async def test_only_the_time_of_the_call_itself_counts_however_long_it_waits_with_its_hold(world: Watched) -> None:
    purse = purse_of(world, spec=amount_of(minutes=16))
    async with purse.paying(wanted(1)) as bill:
        world.slept += 600
        purse.begin(bill)
        world.slept += 30

    assert (await world.bus.ledger.read()).account("spec", "todo").spent.milliseconds == 30_000


@pytest.mark.parametrize(("begins", "tokens"), [(True, 6000), (False, 0)])
async def test_a_call_that_was_given_up_counts_with_all_that_was_held_if_it_was_made(
    world: Watched, begins: bool, tokens: int
) -> None:
    purse = purse_of(world, story=Amount(tokens=20_000))

    call = asyncio.ensure_future(_hang(purse, wanted(1), begins=begins))
    while not (await world.bus.ledger.read()).holds():
        await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    while (await world.bus.ledger.read()).holds():
        await asyncio.sleep(0)

    assert (await world.bus.ledger.read()).account("story", "s-1").spent.tokens == tokens


async def test_several_who_were_stopped_by_the_same_ceiling_raise_it_once(world: Watched) -> None:
    ceilings = Ceilings(spec=amount_of(dollars=50))
    purse = Purse(world, "coder", ceilings, load_prices())
    asked = [RaiseBudget(id=f"s-{n}.1/3/0", scope="spec", name="todo", raised=Amount()) for n in range(4)]

    await asyncio.gather(*map(purse.raise_ceiling, asked))
    once = (await world.bus.ledger.read()).ceiling("spec", "todo", ceilings)
    again = RaiseBudget(id="s-1.1/9/0", scope="spec", name="todo", raised=amount_of(dollars=50))
    await purse.raise_ceiling(again)
    await purse.raise_ceiling(again)

    assert once == amount_of(dollars=100)
    assert (await world.bus.ledger.read()).ceiling("spec", "todo", ceilings) == amount_of(dollars=150)


async def test_who_has_heard_of_less_than_a_person_has_added_by_now_adds_nothing(world: Watched) -> None:
    ceilings = Ceilings(spec=amount_of(dollars=50))
    purse = Purse(world, "coder", ceilings, load_prices())
    await purse.raise_ceiling(RaiseBudget(id="s-1.1/3/0", scope="spec", name="todo", raised=Amount()))
    await purse.raise_ceiling(RaiseBudget(id="s-1.1/5/0", scope="spec", name="todo", raised=amount_of(dollars=50)))

    await purse.raise_ceiling(RaiseBudget(id="s-2.1/3/0", scope="spec", name="todo", raised=Amount()))

    assert (await world.bus.ledger.read()).ceiling("spec", "todo", ceilings) == amount_of(dollars=150)


async def test_where_nobody_knows_any_more_what_was_raised_each_word_raises_once(world: Watched) -> None:
    ceilings = Ceilings(spec=amount_of(dollars=50))
    purse = Purse(world, "coder", ceilings, load_prices())
    for n in (1, 2, 2):
        await purse.raise_ceiling(RaiseBudget(id=f"s-{n}.1/3/0", scope="spec", name="todo"))

    assert (await world.bus.ledger.read()).ceiling("spec", "todo", ceilings) == amount_of(dollars=150)


async def test_each_word_for_one_call_more_is_one_call_more(world: Watched) -> None:
    purse = purse_of(world, spec=amount_of(dollars=50))
    for n in (1, 2, 2):
        await purse.raise_ceiling(RaiseBudget(id=f"s-{n}.1/3/0", scope="spec", name="todo", once=True))

    assert (await world.bus.ledger.read()).account("spec", "todo").passes == 2


async def test_a_day_is_raised_that_was_used_up_even_if_the_answer_comes_on_the_next(world: Watched) -> None:
    ceilings = Ceilings(day=Amount(tokens=1200))
    purse = Purse(world, "coder", ceilings, load_prices())
    with pytest.raises(DayBudgetError) as refused:
        await _paid(purse, wanted(1))
    said = msgspec.json.decode(refused.value.evidence, type=Refused)

    world.day += timedelta(days=1)
    await purse.raise_ceiling(RaiseBudget(id="s-1.1/3/0", scope=said.scope, name=said.name, raised=said.raised))

    book = await world.bus.ledger.read()
    assert book.ceiling("day", "2026-11-19", ceilings) == Amount(tokens=2400)
    assert book.ceiling("day", "2026-11-20", ceilings) == Amount(tokens=1200)


async def _paid(purse: Purse, want: Wanted) -> Any:
    async with purse.paying(want) as bill:
        return bill


async def _hang(purse: Purse, want: Wanted, *, begins: bool) -> None:
    async with purse.paying(want) as bill:
        if begins:
            purse.begin(bill)
        await asyncio.get_running_loop().create_future()
