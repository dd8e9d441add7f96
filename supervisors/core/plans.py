"""What should run: children and the supervisors over them, in OTP's words."""

from collections.abc import Iterator
from typing import Literal, Union

import msgspec

from protocol.routing import address

Restart = Literal["permanent", "transient", "temporary"]
"""Whether a child that has ended is started again: always, unless it ended well, or never."""

Strategy = Literal["one_for_one", "one_for_all", "rest_for_one"]
"""Who is started again with it: nobody, all the others, or those that were started after it."""


SERVICES = ("broker", "health")
"""What runs without being an actor."""


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
    """Something that runs. `runs` is `broker`, `health`, or the machine that an actor's process plays.

    `name` is what people call it, unique in the tree; `actor` the id under which an actor has its mail and its leases.
    `part` is who plays the machine, as `MODULE:NAME`; empty for the machine's own agent.
    """

    name: str
    runs: str = ""
    actor: str = ""
    part: str = ""
    restart: Restart = "permanent"

    @property
    def role(self) -> str:
        """Whose rights it has on the broker: both editions' coders are coders. Empty for what is no actor."""
        return "" if self.runs in SERVICES else self.runs.partition("-")[0]

    @property
    def address(self) -> str:
        """How others name it in their letters."""
        return address(self.role, self.actor) if self.role else ""


class Supervisor(msgspec.Struct, frozen=True, kw_only=True, tag="supervisor"):
    """A supervisor and whom it watches. With `in_order` each child is started when all before it are ready."""

    name: str
    children: tuple[Union[Child, "Supervisor"], ...] = ()
    strategy: Strategy = "one_for_one"
    restart: Restart = "permanent"
    in_order: bool = False
    budget: Budget = Budget()
    backoff: Backoff = Backoff()


Plan = Child | Supervisor


def walk(plan: Plan) -> Iterator[Plan]:
    """A plan and all that is below it."""
    yield plan
    if isinstance(plan, Supervisor):
        for child in plan.children:
            yield from walk(child)
