"""Who is the supervisor of a project: one at a time, by a lease; on one machine a lock has settled it before."""

import hashlib
import os
import socket
from contextlib import suppress
from pathlib import Path

import structlog

from actors.runtime.world import World
from bus.errors import BusClosedError, BusError, LeaseLostError
from bus.leases import Lease
from supervisors.company.place import Place
from supervisors.core.standing import ROOT_LEASE
from supervisors.errors import AlreadyRunningError, DeposedError

log = structlog.get_logger()

RENEWALS_PER_LEASE = 4


class Crown:
    """The lease of the root supervisor. Its owner's name says where it is at home."""

    def __init__(self, world: World, place: Place) -> None:
        self._world = world
        self._leases = world.bus.leases
        digest = hashlib.sha256(_machine() + os.fsencode(place.folder)).hexdigest()[:8]
        self._home = f"{socket.gethostname()}:{digest}"
        self._owner = f"{self._home}/{world.incarnation}"
        self._lease: Lease | None = None

    async def take(self, *, first: bool = True) -> None:
        """Become the supervisor; AlreadyRunningError if there is one elsewhere.

        At `first` one from our own place cannot live any more: we have its lock.
        """
        earlier = await self._leases.holder(ROOT_LEASE) if first else None
        predecessor = earlier.owner if earlier and earlier.owner.startswith(f"{self._home}/") else ""
        lease = await self._leases.acquire(ROOT_LEASE, self._owner, {"pid": os.getpid()}, instead_of=predecessor)
        if lease is None:
            holder = await self._leases.holder(ROOT_LEASE)
            raise AlreadyRunningError(0, holder.owner.partition(":")[0] if holder else "another machine")
        self._lease = lease

    async def keep(self) -> None:
        """Renew for ever. What ran out while the broker was away is taken again; DeposedError: by somebody else."""
        while True:
            await self._world.sleep(self._leases.seconds / RENEWALS_PER_LEASE)
            try:
                await self._renew()
            except BusClosedError:
                raise
            except BusError as error:
                log.warning("crown.unrenewed", reason=str(error))  # a full disk, for one: it may have room again soon

    async def _renew(self) -> None:
        assert self._lease is not None
        try:
            self._lease = await self._leases.renew(self._lease, {"pid": os.getpid()})
        except LeaseLostError:
            log.warning("crown.lost")
            try:
                await self.take(first=False)
            except AlreadyRunningError as error:
                raise DeposedError(error.where) from error

    async def lay_down(self) -> None:
        """Be the supervisor no longer."""
        if self._lease is not None:
            await self._leases.release(self._lease)


def _machine() -> bytes:
    """What tells this machine from another with the same name and folders."""
    with suppress(OSError):
        return Path("/etc/machine-id").read_bytes()
    return b""
