"""The company: one supervisor's process at work, from an open bus until nobody runs any more, nor will.

Everything that happens is a change of the tree; after each the tree says what is to be done. Whatever takes time runs
beside that and comes back as another change, so no decision waits for anything.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog

from actors.evidence import evidence_of, reason_of
from actors.runtime.together import end_all
from actors.runtime.world import World
from bus.asks import Ask
from bus.errors import BusClosedError, BusError
from bus.settings import Settings
from protocol.codec import encode
from protocol.messages import ActorExited, AnyPayload, Stop, SupervisorGaveUp
from supervisors.clerk.clerk import Clerk
from supervisors.clerk.handover import find_left, hand_over
from supervisors.clerk.watchman import Watchman
from supervisors.company.appeal import START_AGAIN, an_ask, withdraw_earlier
from supervisors.company.audience import Audience
from supervisors.company.chronicle import Chronicle
from supervisors.company.desk import SIZES, Change, Desk
from supervisors.company.life import Death, Life, death_unheard_of
from supervisors.company.place import Place
from supervisors.company.posting import Poster
from supervisors.core import tree as trees
from supervisors.core.planning import plan_of
from supervisors.core.plans import Child, walk
from supervisors.core.standing import STANDING, Standing
from supervisors.core.tree import Closed, GaveUp, StartChild, StopChild, Tree, TreeAct, Wake
from supervisors.core.watch import Counters
from supervisors.office import Office
from supervisors.processes.exits import forget, read

log = structlog.get_logger()

TICK_SECONDS = 1.0
STANDING_SECONDS = 5.0
"""How old what stands on the board is at most."""
HEED_SECONDS = 2.0
"""How long the broker may take to pass on that an actor is to stop; then the machine's signal has to do."""
FAREWELL_SECONDS = 5.0
AGAIN_SECONDS = 5.0

MakeLife = Callable[["Company", Child, float], Life]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended: everybody was stopped, perhaps after the root had given up."""

    gave_up: bool = False
    misconfigured: tuple[str, ...] = ()
    """What is wrong where nobody could be started for a wrong configuration."""


class Company:
    """The tree and those who run in it."""

    def __init__(  # noqa: PLR0913 -- what a company is made of
        self,
        settings: Settings,
        world: World,
        office: Office,
        place: Place,
        make_life: MakeLife,
        *,
        audience: Audience,
    ) -> None:
        self._settings = settings
        self._world = world
        self._bus = world.bus
        self._office = office
        self._place = place
        self._make_life = make_life
        self._audience = audience
        self._chronicle = Chronicle(world.bus, office)
        self._poster = Poster(world.now())
        self._tree: Tree
        self._counters: dict[str, Counters] = {}
        self._lives: dict[str, Life] = {}
        self._born: dict[str, datetime] = {}
        self._deaths: dict[str, Death] = {}
        self._changes: asyncio.Queue[Change] = asyncio.Queue()
        self._tasks: list[asyncio.Task[Any]] = []
        self._awake_seconds = 0.0
        self._is_quick = False
        self._outcome: Outcome | None = None
        self._misconfigured: tuple[str, ...] = ()
        self._unposted = asyncio.Event()
        self._desk = Desk(world.bus, settings, self._changes.put_nowait, self._born)
        self._appeals = 0
        self._appeal: asyncio.Task[None] | None = None

    # What others may ask of it.

    @property
    def is_closing(self) -> bool:
        """Whether everybody is on the way out."""
        return bool(self._tree.watches[self._tree.plan.name].closing)

    def tell(self, payload: AnyPayload) -> None:
        """Record an event of the supervisor's."""
        self._chronicle.tell(payload)

    def stop(self) -> None:
        """End everybody in order, each with what it has in hand done and recorded."""
        self._changes.put_nowait(trees.stop)

    def kill(self) -> None:
        """End everybody at once; what is in hand is done again by the next processes."""
        self._is_quick = True
        self._changes.put_nowait(trees.stop_at_once)
        for life in self._lives.values():
            life.kill()

    async def prepare(self) -> None:
        """Read what an earlier supervisor has left, and plant the tree."""
        self._counters = await asyncio.to_thread(self._place.read_counters)
        await withdraw_earlier(self._bus)
        self._tree = trees.plant(plan_of(self._settings, await self._desk.open()), self._counters)
        for unheard in await asyncio.to_thread(read, self._place.folder):
            child = Child(name=Path(unheard.log).stem, runs=unheard.machine, actor=unheard.actor)
            self._tell_of(child, death_unheard_of(unheard))
        await asyncio.to_thread(forget, self._place.folder)

    async def run(self) -> Outcome:
        """Be the company until nobody runs any more."""
        policy = self._settings.supervisor
        beside = [
            self._keep(self._chronicle.run),
            self._keep(self._tick),
            self._keep(self._post),
            self._keep(self._desk.run),
            self._keep(Clerk(self._world, policy, self.tell).run),
            self._keep(Watchman(self._world, policy, self.tell).run),
        ]
        try:
            await self._decide()
            await self._chronicle.finish(FAREWELL_SECONDS)
        finally:
            await end_all([*beside, *self._tasks])
        assert self._outcome is not None
        return self._outcome

    async def leave(self) -> None:
        """Take down what says that the company runs, and what it has counted: a person has closed it."""
        await asyncio.to_thread(self._place.forget_counters)
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                for key in (STANDING, SIZES):
                    await self._bus.board.take_down(key)
                await self._bus.health.take_down()
        except (TimeoutError, BusError) as error:
            log.warning("company.left_untidy", reason=str(error) or "the broker does not answer")

    # Deciding.

    async def _decide(self) -> None:
        while self._outcome is None:
            self._tree, acts = trees.reconcile(self._tree, time.time(), self._world.chance())
            self._heed()
            await self._remember()
            for act in acts:
                self._act(act)
            if self._outcome is None:
                self._tree = (await self._changes.get())(self._tree)
                while not self._changes.empty():
                    self._tree = self._changes.get_nowait()(self._tree)

    def _act(self, act: TreeAct) -> None:
        match act:
            case StartChild(child):
                self._start(child)
            case StopChild(name):
                self._spawn(self._stop(name))
            case Wake(at):
                asyncio.get_running_loop().call_later(max(0.0, at - time.time()), self._changes.put_nowait, _nothing)
            case GaveUp(name, failures):
                log.error("supervisor.gave_up", name=name, failures=failures, reason=self._last_reason(name))
                self.tell(SupervisorGaveUp(name=name, failures=failures, reason=self._last_reason(name)))
            case Closed(gave_up):
                self._outcome = Outcome(gave_up=gave_up, misconfigured=self._misconfigured)

    async def _remember(self) -> None:
        """Keep the counters, and say that there is something to post."""
        counters = trees.counters_of(self._tree)
        if counters != self._counters:
            try:
                await asyncio.to_thread(self._place.write_counters, counters)
            except OSError as error:
                log.warning("counters.unwritten", reason=str(error))  # a full disk must not end the company
        self._counters = counters
        self._audience.show(self._standing())
        self._unposted.set()

    def _standing(self) -> Standing:
        return self._poster.standing(self._tree, self._lives, self._world.now())

    # Children.

    def _start(self, child: Child) -> None:
        life = self._lives[child.name] = self._make_life(self, child, self._awake_seconds)
        self._born[child.name] = self._world.now()
        self._spawn(self._live(child, life))

    async def _live(self, child: Child, life: Life) -> None:
        try:
            death = await life.run(partial(self._is_ready, child.name))
        except Exception as error:  # a bug of ours; the tree has to know all the same that nobody is there
            death = Death(way="crash", pid=life.pid, reason=reason_of(error), said=evidence_of(error))
        del self._lives[child.name]
        self._deaths[child.name] = death
        self._poster.died(child.name, death)
        self._record(child, death)
        self._changes.put_nowait(partial(self._bury, child, death))

    def _is_ready(self, name: str) -> None:
        self._changes.put_nowait(lambda tree: trees.became_ready(tree, name, time.time()))

    def _record(self, child: Child, death: Death) -> None:
        if death.way not in ("normal", "asked"):
            log.warning("child.ended", name=child.name, way=death.way, code=death.code, reason=death.reason)
        else:
            log.info("child.ended", name=child.name, way=death.way, code=death.code)
        if child.runs == "health" and death.way == "asked":
            return  # no process of its own, and nothing that anybody would look for
        self._tell_of(child, death)

    def _tell_of(self, child: Child, death: Death) -> None:
        self.tell(
            ActorExited(
                name=child.name,
                actor=child.address,
                machine=child.runs,
                pid=death.pid,
                way=death.way,
                code=death.code,
                reason=death.reason,
                said=death.said,
                lived_seconds=round(death.lived_seconds, 3),
                user_seconds=death.resources.user_seconds,
                system_seconds=death.resources.system_seconds,
                memory_bytes_max=death.resources.memory_bytes_max,
            )
        )

    def _bury(self, child: Child, death: Death, tree: Tree) -> Tree:
        tree = trees.ended(tree, child.name, death.way, time.time(), self._world.chance())
        known = trees.known(tree, child.name)
        if child.role and not self.is_closing and (known is None or known.phase == "over"):
            self._spawn(self._hand_over(child))
        if not trees.nobody_can_start(tree):
            return tree
        whose: dict[str, list[str]] = {}
        for name in (each.name for each in walk(tree.plan)):
            if name in self._deaths and self._deaths[name].way == "configuration":
                whose.setdefault(self._deaths[name].reason, []).append(name)
        self._misconfigured = tuple(f"{', '.join(names)}: {reason}" for reason, names in whose.items())
        return trees.stop(tree)

    async def _stop(self, name: str) -> None:
        """Tell a child to end. When a person closes the company its session hears so, and records it.

        Where the root has given up nobody has closed anything: sessions stay as they are, and are gone on with.
        """
        life = self._lives.get(name)
        if life is None:
            return
        child = self._child(name)
        closes = self.is_closing and not trees.gives_up(self._tree)
        heeds = closes and not self._is_quick and bool(child.role) and await self._say_stop(child)
        life.stop(heeds=heeds)
        if self._is_quick:
            life.kill()

    async def _say_stop(self, child: Child) -> bool:
        try:
            async with asyncio.timeout(HEED_SECONDS):
                letter = self._office.letter(Stop(reason="the company is closed"), child.address, "CONTROL")
                await self._bus.control.broadcast(letter)
        except (TimeoutError, BusError) as error:
            log.warning("stop.unsaid", name=child.name, reason=str(error))
            return False
        return True

    async def _hand_over(self, child: Child) -> None:
        """Its story must not wait until somebody notices that it is gone."""
        if child.role != "coder":
            return
        while True:
            try:
                left = await find_left(self._bus, "coder", child.actor)
                if left is None or child.name in self._lives:
                    return  # a person has changed their mind: it is perhaps its successor's
                story = await hand_over(self._bus, left, f"{child.actor}/supervisor")
            except BusClosedError:
                raise
            except BusError as error:
                log.warning("story.not_handed_over", name=child.name, reason=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                if story:
                    log.info("story.handed_over", name=child.name, story=story)
                return

    def _child(self, name: str) -> Child:
        watch = trees.parent_of(self._tree, name)
        assert watch is not None
        child = next(each for each in watch.plan.children if each.name == name)
        assert isinstance(child, Child)
        return child

    # When nothing helps.

    def _heed(self) -> None:
        """Nothing ends silently: as long as the root has given up a person is asked what now."""
        if self._tree.gave_up and self._appeal is None:
            self._appeals += 1
            ask = an_ask(self._world, self._appeals)
            self._audience.say(f"the company has stopped itself and waits for you: bus answer {ask.id} '{START_AGAIN}'")
            self._appeal = self._spawn(self._ask(ask))
        elif not self._tree.gave_up and self._appeal is not None:
            self._appeal.cancel()
            self._appeal = None

    async def _ask(self, ask: Ask) -> None:
        """Wait for the answer, however long it takes; what was settled otherwise nobody is to be asked any more."""
        try:
            while (answer := await self._answer(ask)) is None:
                continue
            self._changes.put_nowait(trees.begin_anew if answer == START_AGAIN else trees.stop)
        finally:
            await self._bus.asks.withdraw(ask.id)

    async def _answer(self, ask: Ask) -> str | None:
        """None: it could not be asked, and may be tried again now."""
        try:
            await self._put_standing()  # whoever finds the ask finds the tree as it is
            await self._bus.asks.put(ask)
            return await self._bus.asks.wait(ask.id)
        except BusClosedError:
            raise
        except BusError as error:
            log.warning("company.cannot_ask", reason=str(error))  # a full disk, for one: it may have room again soon
            await asyncio.sleep(AGAIN_SECONDS)
            return None

    def _last_reason(self, supervisor: str) -> str:
        """How the last of those below a supervisor has failed."""
        plan = next(each for each in walk(self._tree.plan) if each.name == supervisor)
        names = {each.name for each in walk(plan)}
        failed = [
            f"{name}: {death.reason or death.way}"
            for name, death in self._deaths.items()
            if name in names and death.way not in ("normal", "asked")
        ]
        return failed[-1] if failed else ""

    # Beside the deciding.

    async def _tick(self) -> None:
        """Let time go by; what the supervisor has slept through, and a broker that is away, are no actor's fault."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            if self._bus.broker.is_connected or self.is_closing:
                self._awake_seconds += min(now - last, 2 * TICK_SECONDS)
            last = now
            for life in list(self._lives.values()):
                life.tick(self._awake_seconds)

    async def _post(self) -> None:
        while True:
            self._unposted.clear()
            await self._put_standing()
            try:
                async with asyncio.timeout(STANDING_SECONDS):
                    await self._unposted.wait()
            except TimeoutError:
                continue

    async def _put_standing(self) -> None:
        await self._bus.board.put(STANDING, encode(self._standing()))

    # Tasks.

    def _keep(self, work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        """What runs as long as the company does. What it fails of is a bug of ours, and no reason to stop the rest."""

        async def again_and_again() -> None:
            while True:
                try:
                    await work()
                except BusClosedError as error:
                    self._changes.put_nowait(partial(_raise, error))
                    return
                except Exception:
                    log.exception("company.part_failed", part=getattr(work, "__qualname__", str(work)))
                await asyncio.sleep(AGAIN_SECONDS)

        return asyncio.ensure_future(again_and_again())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """What is done once."""

        async def once() -> None:
            try:
                await work
            except Exception:
                log.exception("company.part_failed", part=getattr(work, "__qualname__", str(work)))

        task = asyncio.ensure_future(once())
        self._tasks = [*(each for each in self._tasks if not each.done()), task]
        return task


def _nothing(tree: Tree) -> Tree:
    return tree


def _raise(error: BaseException, _: Tree) -> Tree:
    raise error
