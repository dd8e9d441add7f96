"""Asks: durable, answered once, and heard by whoever waits."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from bus.asks import Ask, ask_id
from bus.errors import AskClosedError, UnknownAskError
from tests.contract.world import World

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def an_ask(effect: str = "s-1.1/4/0") -> Ask:
    return Ask(id=ask_id("coder", effect), question="go on?", asked_at=AT, choices=("yes", "no"))


async def test_an_ask_is_open_until_it_is_answered_and_answered_once(world: World) -> None:
    asker, person = await world.bus(), await world.bus()
    await asker.asks.put(an_ask())
    await asker.asks.put(an_ask("s-1.1/2/0"))
    assert [ask.id for ask in await person.asks.open()] == ["coder.s-1.1.2.0", "coder.s-1.1.4.0"]

    await person.asks.answer("coder.s-1.1.4.0", "yes", AT)

    assert [ask.id for ask in await person.asks.open()] == ["coder.s-1.1.2.0"]
    with pytest.raises(AskClosedError) as refusal:
        await person.asks.answer("coder.s-1.1.4.0", "no", AT)
    assert refusal.value.answer == "yes"
    assert await asker.asks.wait("coder.s-1.1.4.0") == "yes"


async def test_asking_again_after_the_answer_does_not_open_it_again(world: World) -> None:
    bus = await world.bus()
    await bus.asks.put(an_ask())
    await bus.asks.answer(an_ask().id, "yes", AT)

    await bus.asks.put(an_ask())

    assert await bus.asks.open() == []


async def test_whoever_waits_hears_the_answer_when_it_comes(world: World) -> None:
    asker, person = await world.bus(), await world.bus()
    await asker.asks.put(an_ask())
    waiting = asyncio.create_task(asker.asks.wait(an_ask().id))
    await asyncio.sleep(0)

    await person.asks.answer(an_ask().id, "no", AT)

    async with asyncio.timeout(10):
        assert await waiting == "no"


async def test_what_nobody_asked_cannot_be_answered(world: World) -> None:
    bus = await world.bus()

    with pytest.raises(UnknownAskError):
        await bus.asks.answer("coder.s-9.1.1.0", "yes", AT)


NOISE = [b"\xff{", b"{}", b'{"id":"coder.other","question":"?","asked_at":"2026-01-02T03:04:05Z"}']


@pytest.mark.parametrize("noise", NOISE, ids=["no JSON", "no ask", "another's ask"])
async def test_noise_under_the_keys_of_asks_is_passed_over(world: World, noise: bytes) -> None:
    bus = await world.bus()
    await bus.board.put("asks.coder.noise", noise)
    await bus.asks.put(an_ask())

    assert await bus.asks.open() == [an_ask()]
    with pytest.raises(UnknownAskError):
        await bus.asks.get("coder.noise")


@pytest.mark.parametrize("noise", NOISE, ids=["no JSON", "no ask", "another's ask"])
async def test_an_ask_takes_the_place_of_what_is_none(world: World, noise: bytes) -> None:
    bus = await world.bus()
    await bus.board.put(f"asks.{an_ask().id}", noise)

    await bus.asks.put(an_ask())

    assert await bus.asks.open() == [an_ask()]


async def test_an_ask_that_stands_is_kept_as_it_was_first_asked(world: World) -> None:
    bus = await world.bus()
    await bus.asks.put(an_ask())

    await bus.asks.put(msgspec.structs.replace(an_ask(), question="really?"))

    assert await bus.asks.open() == [an_ask()]


async def test_what_is_no_answer_closes_nothing(world: World) -> None:
    asker, person = await world.bus(), await world.bus()
    await asker.asks.put(an_ask())
    await person.board.put(f"answers.{an_ask().id}", b"\xff{")
    assert await person.asks.open() == [an_ask()]

    await person.asks.answer(an_ask().id, "yes", AT)

    assert await asker.asks.wait(an_ask().id) == "yes"
    assert await person.asks.open() == []


# Withdrawing.


async def test_a_withdrawn_ask_is_no_longer_open_and_cannot_be_answered(world: World) -> None:
    asker, person = await world.bus(), await world.bus()
    await asker.asks.put(an_ask())
    await asker.asks.put(an_ask("s-1.1/2/0"))

    await asker.asks.withdraw(an_ask().id)
    await asker.asks.withdraw(an_ask().id)

    assert await person.asks.open() == [an_ask("s-1.1/2/0")]
    with pytest.raises(UnknownAskError):
        await person.asks.answer(an_ask().id, "yes", AT)


async def test_an_answered_ask_is_not_withdrawn(world: World) -> None:
    asker, person = await world.bus(), await world.bus()
    await asker.asks.put(an_ask())
    await person.asks.answer(an_ask().id, "yes", AT)

    await asker.asks.withdraw(an_ask().id)

    assert await asker.asks.wait(an_ask().id) == "yes"
    with pytest.raises(AskClosedError) as refusal:
        await person.asks.answer(an_ask().id, "no", AT)
    assert refusal.value.answer == "yes"


@pytest.mark.parametrize("first", ["asked", "never asked"])
async def test_a_late_question_does_not_open_what_was_withdrawn(world: World, first: str) -> None:
    """A process that was stopped while it asked may wake after its successor has given the ask up."""
    zombie, successor = await world.bus(), await world.bus()
    if first == "asked":
        await zombie.asks.put(an_ask())
    await successor.asks.withdraw(an_ask().id)

    await zombie.asks.put(an_ask())

    assert await successor.asks.open() == []
