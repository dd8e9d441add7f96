"""The theatre: a whole company on one virtual loop, under the production runtime.

It plays what is around the runtime: a supervisor that starts processes again when they end, and a person who answers
asks. What else the supervisor does, its clerk, its watchman and its health monitor, is the real one, in the process of
the actor `supervisor.main`.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from actors.core.effects import Effect
from actors.hosting.host import Ending
from actors.hosting.playing import play
from actors.runtime.together import until_first
from bus.bus import Bus
from bus.errors import UnknownAskError
from bus.settings.model import Supervision
from bus.topology import apply_topology, plan_topology
from protocol.messages import AnyPayload, Envelope, InterviewRequest, SpecUpload, Story
from protocol.subjects import Subjects
from supervisors.clerk.clerk import Clerk
from supervisors.clerk.watchman import Watchman
from supervisors.core.health import HealthPolicy
from supervisors.health.monitor import Monitor as HealthMonitor
from supervisors.health.probes import BROKER, Probe
from supervisors.office import Office
from tests.actors.understudies.outside import BASE, Payment
from tests.actors.understudies.parts import parts
from tests.simulation.loop import Process, VirtualLoop
from tests.simulation.monitors import Monitor, WatchedServer
from tests.simulation.wire import Network, Wire

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
LEASE_SECONDS = 20
ACK_WAIT_SECONDS = 60.0
CRASHES_MAX = 3
"""After so many crashes of its own an actor is not started again: the budget of its supervisor is spent."""
SUBJECTS = Subjects("theatre")

Act = str
"""What happens to a process at a boundary: "go", "kill", or "stop"."""

Director = Callable[[Process, str], Act]


class World:
    """The World port of one simulated process."""

    def __init__(self, theatre: "Theatre", process: Process, network: Network) -> None:
        self._theatre = theatre
        self._process = process
        self.incarnation = process.name
        self.bus = Bus(
            Wire(theatre.server, network), SUBJECTS, lease_seconds=LEASE_SECONDS, ack_wait_seconds=ACK_WAIT_SECONDS
        )

    def now(self) -> datetime:
        """The time of day."""
        return self._theatre.now()

    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._theatre.loop.time()

    async def sleep(self, seconds: float) -> None:
        """Wait, in virtual time."""
        await asyncio.sleep(seconds)

    def chance(self) -> float:
        """From the seed."""
        return self._theatre.chance.random()

    async def boundary(self, name: str) -> None:
        """Where the director may do something to the process."""
        match self._theatre.director(self._process, name):
            case "kill":
                self._theatre.kill(self._process)
                await asyncio.sleep(0)
            case "stop":
                self._theatre.stop(self._process)
                await asyncio.sleep(0)


class Theatre:
    """A company with its broker, its world outside and its audience."""

    def __init__(self, loop: VirtualLoop, seed: int = 0, director: Director = lambda _, __: "go") -> None:
        self.loop = loop
        self.chance = random.Random(seed)
        self.director = director
        self.monitor = Monitor(self.now)
        self.server = WatchedServer(self.monitor, now=self.now, fence_first=seed % 2 == 0)
        self.outside = Stage(self)
        self.parts = parts(self.outside)
        self.office = Bus(Wire(self.server), SUBJECTS, lease_seconds=LEASE_SECONDS, ack_wait_seconds=ACK_WAIT_SECONDS)
        self.processes: dict[str, Process] = {}
        self.started: Counter[str] = Counter()
        self.told: dict[str, asyncio.Future[None]] = {}
        """What tells a process to leave."""
        self.restarts = True
        self.endings: list[tuple[str, str]] = []
        self.crashes: Counter[str] = Counter()
        self.superseded: set[str] = set()
        self.disturbed: set[str] = set()
        """Processes that were stopped or ended before their time: what they had in hand may be done again."""
        self.stopped: list[Process] = []
        self.make_network: Callable[[str], Network] = lambda _: Network()
        self.policy = Supervision()
        self.heard: list[AnyPayload] = []
        """What supervisors have told."""
        self._letters = 0
        self.closing = False
        loop.set_exception_handler(self._overhear)

    def now(self) -> datetime:
        """The time of day."""
        return EPOCH + timedelta(seconds=self.loop.time())

    # The company.

    async def open(self, *actors: str) -> None:
        """Set up the broker and start the actors, each named `<machine>.<id>`."""
        await apply_topology(self.office.broker, plan_topology(SUBJECTS, ack_wait_seconds=ACK_WAIT_SECONDS))
        for actor in actors:
            self.start(actor)

    def start(self, actor: str) -> Process:
        """Start a process of an actor, whatever others of it there are."""
        self.started[actor] += 1
        machine, _, name = actor.partition(".")
        process = Process(f"{actor}-{self.started[actor]}")
        if actor in self.processes:
            self.superseded.add(self.processes[actor].name)
        self.processes[actor] = process
        self.loop.spawn(process, self._main(process, actor, machine, name))
        return process

    async def _main(self, process: Process, actor: str, machine: str, name: str) -> None:
        world = World(self, process, self.make_network(process.name))
        told = self.told[process.name] = self.loop.create_future()
        self.monitor.say(process.name, "starts")
        ending: Ending | BaseException
        try:
            ending = await (
                self._supervise(world) if machine == "supervisor" else play(world, self.parts[machine], name, told)
            )
        except (Exception, asyncio.CancelledError) as error:
            # A process that is killed here is not cancelled but never runs again: so this is its own doing.
            ending = error
        self.loop.in_world(0.0, self._ended, process, actor, ending)

    async def _supervise(self, world: World) -> Any:
        """What a supervisor does besides starting processes, for ever."""
        probes = (BROKER, Probe(name="model", check=self.outside.probe))
        await until_first(
            Clerk(world, self.policy, self.heard.append).run(),
            Watchman(world, self.policy, self.heard.append).run(),
            HealthMonitor(world, Office(world), probes, HealthPolicy(), self.heard.append).run(lambda: None),
        )

    def _ended(self, process: Process, actor: str, ending: Ending | BaseException) -> None:
        what = self.monitor.check_ending(process.name, ending)
        self.endings.append((process.name, what))
        process.is_alive = False
        if what in ("lost", "left", "unreachable", "crashed"):
            self.disturbed.add(process.name)
        if what == "crashed":
            self.crashes[actor] += 1
        if self.processes.get(actor) is process and not self.closing:
            self.loop.in_world(0.05, self._start_again, process, actor)

    def _start_again(self, process: Process, actor: str) -> None:
        is_given_up = self.crashes[actor] >= CRASHES_MAX
        if self.processes.get(actor) is process and self.restarts and not self.closing and not is_given_up:
            self.start(actor)

    # What can happen to a process.

    def kill(self, process: Process) -> None:
        """Kill -9, and the supervisor starts the next one."""
        self.monitor.say(process.name, "is killed")
        process.is_alive = False
        self.disturbed.add(process.name)
        actor = self._actor_of(process)
        if actor is not None:
            self.loop.in_world(0.05, self._start_again, process, actor)

    def stop(self, process: Process, seconds: float = 3 * LEASE_SECONDS, *, succeed: bool = True) -> None:
        """SIGSTOP, perhaps a successor at once, and SIGCONT later."""
        self.monitor.say(process.name, "is stopped")
        process.is_stopped = True
        self.disturbed.add(process.name)
        self.stopped.append(process)
        actor = self._actor_of(process)
        if actor is not None and succeed:
            self.loop.in_world(1.0, self._start_again, process, actor)
        self.loop.in_world(seconds, self._wake, process)

    def _wake(self, process: Process) -> None:
        if process.is_alive:
            self.monitor.say(process.name, "is woken")
            self.monitor.woken.add(process.name)
            self.loop.wake(process)

    def _actor_of(self, process: Process) -> str | None:
        return next((actor for actor, current in self.processes.items() if current is process), None)

    # The audience.

    def have_done(self, work: Coroutine[Any, Any, None]) -> None:
        """Have the world do something meanwhile; should that fail, nobody may believe that it was done."""
        self.loop.create_task(work).add_done_callback(self._check_done)

    def _check_done(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.monitor.check_ending("world", error)

    def _overhear(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback has failed: asyncio would only log that."""
        self.monitor.check_ending("callback", context.get("exception") or RuntimeError(context["message"]))

    async def order(self, story: str, run: int = 1) -> None:
        """Put a story on the queue, as the architect would."""
        payload = Story(story=story, spec="spec", run=run, title=story, description="", acceptance_criteria=())
        await self.office.work.put(self.letter(payload, "coder.all", "REQUEST"))

    async def talk(self, interview: str) -> None:
        """Ask the PM for an interview."""
        await self.office.mail.send(self.letter(InterviewRequest(interview=interview), "pm.main", "REQUEST"))

    async def upload(self, interview: str, revision: int = 1) -> None:
        """Give the PM a finished spec for an interview."""
        spec = SpecUpload(spec=interview, revision=revision, markdown="# Spec")
        await self.office.mail.send(self.letter(spec, "pm.main", "REQUEST"))

    async def broadcast(self, payload: AnyPayload, recipient: str = "all.all") -> int:
        """Send a control signal."""
        self.monitor.say("office", f"{type(payload).__name__.lower()} to {recipient}")
        return await self.office.control.broadcast(self.letter(payload, recipient, "CONTROL"))

    def letter(self, payload: AnyPayload, recipient: str, kind: Any) -> Envelope:
        self._letters += 1
        return Envelope(
            id=f"office/{self._letters}/0",
            kind=kind,
            sender="supervisor.office",
            recipient=recipient,
            payload=payload,
            sent_at=self.now(),
        )

    async def answer_asks(self) -> None:
        """Give the first of the choices of whatever is asked, for ever."""
        while True:
            for ask in await self.office.asks.open():
                with suppress(UnknownAskError):  # it was withdrawn meanwhile
                    await self.office.asks.answer(ask.id, (ask.choices or ("yes",))[0], self.now())
            await asyncio.sleep(1.0 + 2.0 * self.chance.random())

    async def until(self, is_over: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is so; False if it is not after that time."""
        deadline = self.loop.time() + seconds
        while not is_over():
            if self.loop.time() > deadline:
                return False
            await asyncio.sleep(0.25)
        return True


class Stage:
    """The world outside, in memory."""

    def __init__(self, theatre: Theatre) -> None:
        self._theatre = theatre
        self.payments: list[Payment] = []
        self.trees: dict[str, list[str]] = {BASE: []}
        self.writes: dict[str, str] = {}
        self.announcements: dict[str, str] = {}
        self.down_until = 0.0
        self.slowness = 0.0
        self.breakage = 0.0

    def touch(self, effect: Effect, incarnation: str) -> None:
        """Somebody is about to perform an effect: is it recorded, and theirs?"""
        self._theatre.monitor.check_effect(effect, incarnation)

    def is_up(self) -> bool:
        """Whether the model can be reached."""
        return self._theatre.loop.time() >= self.down_until

    async def probe(self, _: Bus) -> None:
        """What the health monitor asks."""
        if not self.is_up():
            raise ConnectionError("overloaded")

    def breaks(self) -> bool:
        """As often as the seed says."""
        return bool(self.breakage) and self._theatre.chance.random() < self.breakage

    def pay(self, payment: Payment) -> None:
        """Note who paid for what."""
        self._theatre.monitor.say(payment.incarnation, f"pays for {payment.effect}")
        self.payments.append(payment)

    def write(self, effect: str, base: str, line: str) -> str:
        """The same effect on the same tree gives the same tree."""
        head = f"{base}/{line}"
        self._theatre.monitor.check_same(f"write {effect}", head)
        self.trees[head] = [*self.trees[base], line]
        self.writes[effect] = head
        return head

    def announce(self, effect: str, line: str) -> None:
        """Once per effect."""
        self._theatre.monitor.check_same(f"announce {effect}", line)
        self.announcements[effect] = line

    def thinking_seconds(self) -> float:
        """As slow as the seed says."""
        return self.slowness * self._theatre.chance.random()
