"""Executors that every actor has: waiting for a time, and for a person."""

from actors.core.effects import AskPerson, Timer, WithdrawAsk
from actors.core.results import AskWithdrawn, PersonAnswered, TimerRang
from actors.runtime.executors import Executors
from actors.runtime.world import World
from bus.asks import Ask, ask_id
from protocol.subjects import Role


def waiting_executors(world: World, role: Role) -> Executors:
    """Timer, AskPerson and WithdrawAsk: each can be run again at any time, what they wait for is kept elsewhere."""

    async def wait_until_due(timer: Timer) -> TimerRang:
        assert timer.due is not None
        while (left := (timer.due - world.now()).total_seconds()) > 0:
            await world.sleep(left)
        return TimerRang()

    async def ask(effect: AskPerson) -> PersonAnswered:
        asked = Ask(
            id=ask_id(role, effect.id),
            question=effect.question,
            context=effect.context,
            choices=effect.choices,
            asked_at=world.now(),
        )
        await world.bus.asks.put(asked)
        return PersonAnswered(answer=await world.bus.asks.wait(asked.id))

    async def withdraw(effect: WithdrawAsk) -> AskWithdrawn:
        await world.bus.asks.withdraw(ask_id(role, effect.ask))
        return AskWithdrawn()

    return {Timer: wait_until_due, AskPerson: ask, WithdrawAsk: withdraw}
