"""The world outside, as understudies change it: what was paid, written and announced, and by whom."""

from typing import NamedTuple, Protocol

from actors.core.effects import Effect
from actors.errors import EffectError, ServiceUnavailableError
from actors.runtime.executors import Executors
from actors.runtime.world import World
from tests.actors.understudies.effects import (
    Announce,
    Announced,
    Prepare,
    Prepared,
    Think,
    Thought,
    Write,
    Written,
)

BASE = "base"


class Payment(NamedTuple):
    """One call of the model."""

    effect: str
    incarnation: str


class Outside(Protocol):
    """What effects touch. Each call happens at once and wholly, or not at all."""

    def touch(self, effect: Effect, incarnation: str) -> None:
        """Somebody is about to perform an effect."""

    def is_up(self) -> bool:
        """Whether the model can be reached."""

    def breaks(self) -> bool:
        """Whether the model refuses for good this time."""

    def pay(self, payment: Payment) -> None:
        """A call of the model was paid for."""

    def write(self, effect: str, base: str, line: str) -> str:
        """Add a line to the tree at `base`, once per effect; returns the new tree."""

    def announce(self, effect: str, line: str) -> None:
        """Tell everybody, once per effect."""

    def thinking_seconds(self) -> float:
        """How long the model takes this time."""


def executors_of(outside: Outside, world: World) -> Executors:
    """The executors of all understudies, with a boundary before and after everything that they change."""

    async def prepare(effect: Prepare) -> Prepared:
        outside.touch(effect, world.incarnation)
        await world.boundary("prepare.inside")
        return Prepared(head=BASE)

    async def think(effect: Think) -> Thought:
        outside.touch(effect, world.incarnation)
        if not outside.is_up():
            raise ServiceUnavailableError("model", "overloaded")
        outside.pay(Payment(effect.id, world.incarnation))
        await world.boundary("think.paid")
        await world.sleep(outside.thinking_seconds())
        if outside.breaks():
            raise EffectError("refused")
        await world.boundary("think.answered")
        return Thought(text=effect.prompt)

    async def write(effect: Write) -> Written:
        outside.touch(effect, world.incarnation)
        await world.boundary("write.before")
        head = outside.write(effect.id, effect.base, effect.line)
        await world.boundary("write.after")
        return Written(head=head)

    async def announce(effect: Announce) -> Announced:
        outside.touch(effect, world.incarnation)
        outside.announce(effect.id, effect.line)
        await world.boundary("announce.after")
        return Announced()

    return {Prepare: prepare, Think: think, Write: write, Announce: announce}
