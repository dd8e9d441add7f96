"""What companies have left behind that no running one uses; journals are never among it."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec

from actors.hosting.hosted import read_hosted
from bus.bus import Bus
from bus.leases import Lease
from bus.server.process import birth
from protocol.routing import address
from protocol.subjects import Role
from supervisors.company.place import Place, orphans
from supervisors.core.plans import Child, Plan, walk
from supervisors.core.standing import ROOT_LEASE, Standing
from supervisors.core.watch import ALIVE
from supervisors.presence import presences
from supervisors.views.logs import ASIDE, SUFFIX
from supervisors.views.overview import is_running, read_standing

RENEWED_WITHIN = 0.3
"""Of a lease's length: whoever lives has renewed it by then, which happens every quarter."""

SUPERVISOR_LOG = "supervisor"


class LeftLease(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="lease"):
    """A lease that nobody renews."""

    lease: Lease

    def __str__(self) -> str:
        return f"lease {self.lease.key} of {self.lease.owner}, which nobody renews"


class LeftEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="entry"):
    """What stands on the board of an actor that is in no tree and has no process."""

    key: str
    role: str
    actor: str
    session: str

    def __str__(self) -> str:
        return (
            f"entry of {self.role}.{self.actor} on the board{f', with session {self.session}' if self.session else ''}"
        )


class LeftLog(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="log"):
    """A log of a name that is in no tree."""

    path: str
    size: int

    def __str__(self) -> str:
        return f"log {self.path} ({self.size} bytes)"


class LeftProcess(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="process"):
    """A process that a supervisor has left behind; `born` tells it from a later one of the same number."""

    pid: int
    born: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid}: {self.command}"


LeftOver = LeftLease | LeftEntry | LeftLog | LeftProcess


class Known(msgspec.Struct, frozen=True):
    """Whom the trees have, that of the settings and that of a running company; and who of them is alive."""

    names: frozenset[str]
    addresses: frozenset[str]
    alive: frozenset[str]
    running: bool


async def find_leftovers(bus: Bus, place: Place, plan: Plan) -> list[LeftOver]:
    """All of it. Where somebody could still be alive it takes part of a lease's length to see."""
    standing = await read_standing(bus)
    running = place.supervisor() is not None or await is_running(bus, standing)
    known = _known(plan, standing, running=running)
    leases = await _left_leases(bus, known)
    dead = {lease.lease.key for lease in leases}
    present = {actor for actor in await presences(bus) if _presence_key(actor) not in dead}
    return [
        *leases,
        *await _left_entries(bus, known.addresses | present),
        *_left_logs(place.logs, known.names),
        *([] if running else _left_processes(place)),
    ]


def _known(plan: Plan, standing: Standing | None, *, running: bool) -> Known:
    planned = [each for each in walk(plan) if isinstance(each, Child)]
    children = standing.children if standing else ()
    return Known(
        names=frozenset((*(each.name for each in planned), *(each.name for each in children), SUPERVISOR_LOG)),
        addresses=frozenset((*(each.address for each in planned), *(each.actor for each in children))),
        alive=frozenset(each.actor for each in children if each.phase in ALIVE and running),
        running=running,
    )


async def _left_leases(bus: Bus, known: Known) -> list[LeftLease]:
    doubtful = {lease.key: lease async for lease, _ in bus.leases.all() if _is_doubtful(lease, known)}
    if doubtful:
        await asyncio.sleep(bus.leases.seconds * RENEWED_WITHIN)
        still: Mapping[str, Lease] = {lease.key: lease async for lease, _ in bus.leases.all()}
        doubtful = {key: lease for key, lease in doubtful.items() if still.get(key) == lease}
    return [LeftLease(lease=lease) for lease in doubtful.values()]


def _is_doubtful(lease: Lease, known: Known) -> bool:
    """Whether nobody in the tree is known to hold it."""
    if lease.key == ROOT_LEASE:
        return not known.running
    role = lease.key.partition(".")[0]
    return address(role, lease.owner.partition("/")[0]) not in known.alive


def _presence_key(actor: str) -> str:
    role, _, identifier = actor.partition(".")
    return f"{role}.actor.{identifier}"


async def _left_entries(bus: Bus, kept: frozenset[str]) -> list[LeftEntry]:
    found = []
    async for posted in bus.board.all("actors"):
        _, role, actor, session = (*posted.key.split(".", 3), "", "", "")[:4]
        if address(role, actor) not in kept:
            hosted = read_hosted(posted)
            session = session or (hosted.session if hosted else "")
            found.append(LeftEntry(key=posted.key, role=role, actor=actor, session=session))
    return found


def _left_logs(folder: Path, names: frozenset[str]) -> list[LeftLog]:
    files = sorted(folder.glob(f"*{SUFFIX}*")) if folder.is_dir() else []
    logs = [path for path in files if path.name.endswith((SUFFIX, ASIDE))]
    strange = [path for path in logs if path.name.removesuffix(ASIDE).removesuffix(SUFFIX) not in names]
    return [LeftLog(path=str(path), size=path.stat().st_size) for path in strange]


def _left_processes(place: Place) -> list[LeftProcess]:
    found = []
    for pid in orphans(place.folder):
        born, command = birth(pid), ""
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        if born is not None:
            found.append(LeftProcess(pid=pid, born=born, command=command))
    return found


def role_of(entry: LeftEntry) -> Role:
    """Whose entry it is."""
    return cast(Role, entry.role)
