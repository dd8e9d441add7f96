"""What should run: children and the supervisors over them, in OTP's words."""

from collections.abc import Iterator
from typing import Literal, Union

import msgspec

Restart = Literal["permanent", "transient", "temporary"]
"""Whether a child that has ended is started again: always, unless it ended well, or never."""

Strategy = Literal["one_for_one", "one_for_all", "rest_for_one"]
"""Who is started again with it: nobody, all the others, or those that were started after it."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How many failures within how many seconds a supervisor bears before it gives up."""

    failures_max: int = 5
    seconds: float = 60.0


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How long a child that fails again and again is left alone: not at all the first time, then longer and longer."""

    first_seconds: float = 0.5
    factor: float = 2.0
    seconds_max: float = 30.0
    jitter: float = 0.25

    def seconds(self, failures: int, chance: float) -> float:
        """The pause after so many failures in a row; `chance`, from 0 to 1, spreads it."""
        if failures <= 1:
            return 0.0
        doublings = min(failures - 2, 32)  # far beyond any maximum, and no overflow
        return min(self.first_seconds * self.factor**doublings, self.seconds_max) * (1.0 + self.jitter * chance)


class Child(msgspec.Struct, frozen=True, kw_only=True, tag="child"):
    """A process: which machine it plays, under which name."""

    name: str
    machine: str = ""
    restart: Restart = "permanent"


class Supervisor(msgspec.Struct, frozen=True, kw_only=True, tag="supervisor"):
    """A supervisor and whom it watches, in the order in which they are started."""

    name: str
    children: tuple[Union[Child, "Supervisor"], ...] = ()
    strategy: Strategy = "one_for_one"
    restart: Restart = "permanent"
    budget: Budget = Budget()
    backoff: Backoff = Backoff()


Plan = Child | Supervisor


def walk(plan: Plan) -> Iterator[Plan]:
    """A plan and all that is below it."""
    yield plan
    if isinstance(plan, Supervisor):
        for child in plan.children:
            yield from walk(child)
