"""The right to act: leases, kept while the process lives, and the question whether they are still ours.

The presence of an actor is a lease under its name; a newer process of the same name takes it over, and the older one
finds out at its next renewal, its next append or its next outside effect. Its value is the heartbeat: in which state
the actor is, since when, and what happened last. A coder also keeps its claim to a story.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from actors.errors import LostSessionError
from actors.runtime.world import World
from bus.errors import LeaseLostError
from bus.leases import Lease
from bus.work import Claim
from protocol.subjects import Role

RENEWALS_PER_LEASE = 4

Details = Callable[[], Mapping[str, Any]]


class Tenure:
    """The leases in this process's hands."""

    def __init__(self, world: World, presence: Lease, details: Details, asked: float) -> None:
        self._world = world
        self._presence = presence
        self._details = details
        self._renewing = asyncio.Lock()
        self._confirmed = asked
        self.claim: Claim | None = None

    @classmethod
    async def begin(cls, world: World, role: Role, actor: str, details: Details) -> "Tenure":
        """Take the presence of an actor, also from an earlier process of the same name."""
        key, owner = f"{role}.actor.{actor}", owner_name(world, actor)
        while True:
            earlier = await world.bus.leases.holder(key)
            asked = world.elapsed()
            lease = await world.bus.leases.acquire(key, owner, details(), instead_of=earlier.owner if earlier else "")
            if lease is not None:
                return cls(world, lease, details, asked)

    def confirm(self, asked: float) -> None:
        """The broker took something that only the owner can write; `asked` is when it was asked.

        Not when it answered: the process may have slept in between.
        """
        self._confirmed = max(self._confirmed, asked)

    async def check(self) -> None:
        """Before an outside effect: if the broker has not confirmed us for half a lease, ask it.

        A process that was stopped and woken finds out here, before it spends. LostSessionError: it is too late.
        """
        if self._world.elapsed() - self._confirmed > self._world.bus.leases.seconds / 2:
            await self.renew()

    async def renew(self) -> None:
        """Write the heartbeat; LostSessionError if a lease is somebody else's."""
        async with self._renewing:
            asked = self._world.elapsed()
            try:
                self._presence = await self._world.bus.leases.renew(self._presence, self._details())
                if self.claim is not None:
                    self.claim = await self._world.bus.work.keep(self.claim)
            except LeaseLostError as error:
                raise LostSessionError(error.key, str(error)) from error
            self.confirm(asked)

    async def keep(self) -> None:
        """Renew for ever; ends only with LostSessionError."""
        while True:
            await self._world.sleep(self._world.bus.leases.seconds / RENEWALS_PER_LEASE)
            await self.renew()

    async def finish(self) -> None:
        """Take the story off the queue and give up the claim to it; LostSessionError if it is somebody else's."""
        async with self._renewing:  # a renewal in between would find the lease gone and take us for fenced
            await self._give_up(self._world.bus.work.finish)

    async def hand_back(self) -> None:
        """Let somebody else have the story; LostSessionError if somebody has."""
        async with self._renewing:
            await self._give_up(self._world.bus.work.hand_back)

    async def _give_up(self, settle: Callable[[Claim], Awaitable[None]]) -> None:
        claim, self.claim = self.claim, None
        assert claim is not None
        try:
            await settle(claim)
        except LeaseLostError as error:
            raise LostSessionError(error.key, str(error)) from error

    async def release(self) -> None:
        """Leave, so that a successor need not wait and nobody takes us for alive."""
        async with self._renewing:
            await self._world.bus.leases.release(self._presence)


def owner_name(world: World, actor: str) -> str:
    """How a process signs the leases that it holds."""
    return f"{actor}/{world.incarnation}"
