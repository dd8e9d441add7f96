"""A company of puppets with its supervisor in the test's own process, on the worker's server."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from actors.runtime.world import RealWorld
from bus.asks import Ask
from bus.bus import Bus
from bus.settings.model import Settings, Supervision
from bus.settings.tree import Actor, TreeText
from protocol.messages import AnyPayload, Envelope, Story
from supervisors.company.audience import Audience
from supervisors.company.company import Company, Outcome
from supervisors.company.life import ActorLife, Life
from supervisors.company.place import Place, orphans
from supervisors.core.patience import Patience
from supervisors.core.plans import Child, Restart
from supervisors.core.standing import ChildStanding, Standing
from supervisors.office import Office
from supervisors.processes.nursery import Soil, ZygoteNursery
from supervisors.processes.orders import Order
from supervisors.views.history import events
from tests.supervisors import puppets
from tests.supervisors.owner import eventually

SECONDS_MAX = 30.0
STOP_SECONDS = 15.0
PUPPET = "tests.supervisors.puppets:PUPPET"
IDLE = "tests.supervisors.puppets:IDLE"
LATECOMER = "tests.supervisors.puppets:LATECOMER"


def a_puppet(name: str, restart: Restart = "permanent", part: str = PUPPET) -> Actor:
    """Somebody who listens to a test once there is a story."""
    return Actor(name=name, runs="coder", id=name, part=part, restart=restart)


def a_bystander(name: str, restart: Restart = "permanent", part: str = IDLE) -> Actor:
    """Somebody who does nothing, and takes no story."""
    return Actor(name=name, runs="architect", id=name, part=part, restart=restart)


class Eyes(Audience):
    """See how the tree stands."""

    def __init__(self) -> None:
        self.standing: Standing | None = None

    def show(self, standing: Standing) -> None:
        """Look."""
        self.standing = standing


class PuppetCompany:
    """The company, as a test watches it and interferes."""

    def __init__(self, bus: Bus, url: str, folder: Path, tree: TreeText, patience: Patience) -> None:
        self.bus = bus
        self.place = Place(folder / "supervisor")
        self.patience: dict[str, Patience] = {}
        """Who is looked at less patiently than the others, once: the next time that it is started."""
        self._url = url
        self._folder = folder
        self._patience = patience
        self._settings = Settings(
            project=bus.subjects.project, tree=tree, supervisor=Supervision(requeue_seconds=SECONDS_MAX)
        )
        self._nursery: ZygoteNursery
        self.company: Company
        self.ended: asyncio.Task[Outcome]
        self._eyes = Eyes()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["PuppetCompany"]:
        """Open the company; whoever is left when the test is done with it is killed."""
        os.close(self.place.claim())
        lock = self.place.open_actors_lock()
        self._nursery = ZygoteNursery(
            Soil(
                folder=str(self._folder),
                lock=lock,
                orphan_seconds=STOP_SECONDS,
                modules=("tests.supervisors.puppets",),
            )
        )
        world = RealWorld(self.bus)
        self.company = Company(self._settings, world, Office(world), self.place, self._make_life, audience=self._eyes)
        await self.company.prepare()
        self.ended = asyncio.ensure_future(self.company.run())
        try:
            yield self
        finally:
            if not self.ended.done():
                self.company.kill()
            await self.ended
            await self._nursery.close()
            os.close(lock)
            left = orphans(self.place.folder)
            assert left == [], f"processes were left behind: {left}"

    def _make_life(self, _: Company, child: Child, now: float) -> Life:
        order = Order(
            machine=child.runs,
            actor=child.actor,
            part=child.part,
            log=str(self.place.logs / f"{child.name}.log"),
            folder=str(self._folder),
            project=self._settings.project,
            url=self._url,
        )
        return ActorLife(self._nursery, order, self.patience.pop(child.name, self._patience), now)

    @property
    def standing(self) -> Standing | None:
        """How the tree was last said to stand."""
        return self._eyes.standing

    # What a test sees.

    async def until(self, what: str, holds: Callable[[Standing], bool]) -> Standing:
        """Wait until the tree stands so."""
        try:
            async with asyncio.timeout(SECONDS_MAX):
                while self.standing is None or not holds(self.standing):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"not within {SECONDS_MAX:g} s: {what}; it stands so: {self.standing}") from None
        return self.standing

    async def until_settled(self) -> Standing:
        """Wait until everybody runs who is to run."""
        return await self.until("all settled", is_settled)

    async def until_again(self, name: str, pid: int) -> Standing:
        """Wait until another process than `pid` has a name, and all is settled."""
        what = f"{name} is another process than {pid}"
        return await self.until(what, lambda now: child_of(now, name).pid not in (0, pid) and is_settled(now))

    def child(self, name: str) -> ChildStanding:
        """How a child stands now."""
        assert self.standing is not None
        return child_of(self.standing, name)

    async def asked(self) -> Ask:
        """Wait until the company asks a person; gives the ask."""

        async def look() -> Ask | None:
            return next(iter(await self.bus.asks.open()), None)

        return await eventually("the company asks something", look)

    async def until_nobody_is_asked(self) -> None:
        """Wait until no ask is open."""

        async def look() -> bool | None:
            return not await self.bus.asks.open() or None

        await eventually("nobody is asked any more", look)

    async def recorded(self) -> list[AnyPayload]:
        """What the supervisor has recorded until now."""
        return [envelope.payload async for envelope in events(self.bus)]

    # What a test does.

    def say(self, name: str, word: puppets.Word) -> Path:
        """Say a word to the process of a puppet; what it stands in is gone once it is heard."""
        return puppets.say(self._folder, self.child(name).pid, word)

    async def order(self, count: int) -> None:
        """Put stories on the queue: a puppet without one does not listen."""
        for number in range(count):
            story = f"s-{number}"
            payload = Story(story=story, spec="spec", run=1, title=story, description="", acceptance_criteria=())
            await self.bus.work.put(
                Envelope(
                    id=f"office/{number + 1}/0",
                    kind="REQUEST",
                    sender="supervisor.office",
                    recipient="coder.all",
                    payload=payload,
                    sent_at=datetime.now(UTC),
                )
            )


def child_of(standing: Standing, name: str) -> ChildStanding:
    """One child of a tree."""
    return next(child for child in standing.children if child.name == name)


def is_settled(standing: Standing) -> bool:
    """Whether everybody runs who is to run."""
    phases = {*(each.phase for each in standing.supervisors), *(each.phase for each in standing.children)}
    return phases <= {"ready", "over"}
