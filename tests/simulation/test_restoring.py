"""The health monitor and a whole company: who is suspended is restored when all is well, and not before."""

import asyncio
from collections.abc import Awaitable, Callable

from actors.runtime.together import ENDING_SECONDS
from bus.bus import Bus
from bus.health import Service
from protocol.machine import ERROR, SUSPEND
from protocol.messages import AnyPayload, HealthChanged, Restore
from protocol.record import Record
from supervisors.core.health import HealthPolicy
from supervisors.health.monitor import Monitor
from supervisors.health.probes import BROKER, Probe
from supervisors.office import Office
from tests.simulation.evening import HOUR, come_to, events, last, on_stage, states, suspended
from tests.simulation.loop import Process
from tests.simulation.theatre import SUBJECTS, Theatre, World
from tests.simulation.wire import Network

POLICY = HealthPolicy()
ROUND = POLICY.interval_seconds
MANY = 50

Check = Callable[[Bus], Awaitable[None]]


class Watch:
    """A monitor in a process of its own, and what it has told."""

    def __init__(self, theatre: Theatre, *probes: Probe, name: str = "supervisor.main-1") -> None:
        self.told: list[AnyPayload] = []
        self.network = Network()
        self.process = Process(name)
        world = World(theatre, self.process, self.network)
        monitor = Monitor(world, Office(world), [BROKER, *(probes or [model(theatre)])], POLICY, self.told.append)
        self.ready_at: list[float] = []
        work = monitor.run(lambda: self.ready_at.append(theatre.loop.time()))
        self.task = theatre.loop.spawn(self.process, work)

    @property
    def changes(self) -> list[tuple[str, bool]]:
        return [(told.service, told.healthy) for told in self.told if isinstance(told, HealthChanged)]


def model(theatre: Theatre, check: Check | None = None) -> Probe:
    """What agents need, as it is outside."""

    async def is_up(_: Bus) -> None:
        if theatre.loop.time() < theatre.outside.down_until:
            raise ConnectionError("overloaded")

    return Probe(name="model", check=check or is_up)


async def restores(theatre: Theatre) -> list[int]:
    """The generations of all restores that were ever broadcast."""
    signals = [signal async for signal in theatre.office.control.read("supervisor", "main")]
    return [signal.generation for signal in signals if isinstance(signal.envelope.payload, Restore)]


async def service(theatre: Theatre, name: str = "model") -> Service:
    health = await theatre.office.health.get()
    assert health is not None
    return next(each for each in health.services if each.name == name)


def is_return(record: Record) -> bool:
    return record.state_from == SUSPEND and record.state_to not in (SUSPEND, ERROR)


def test_everybody_is_restored_by_one_broadcast_to_exactly_where_they_were() -> None:
    stories = [f"s-{n}" for n in range(MANY)]
    talks = [f"talk-{n}" for n in range(MANY)]
    sessions = [*(f"{story}.1" for story in stories), *talks]

    async def play(theatre: Theatre) -> None:
        theatre.outside.down_until = 10 * HOUR
        for story, talk in zip(stories, talks, strict=True):
            await theatre.order(story)
            await theatre.talk(talk)
        for session in sessions:
            await come_to(theatre, "SUSPEND", session, 60)
        watch = Watch(theatre)
        await asyncio.sleep(4 * ROUND)
        assert await restores(theatre) == []
        theatre.outside.down_until = 0.0
        await asyncio.sleep(10 * ROUND)
        assert len(await restores(theatre)) == 1
        assert watch.changes == [("broker", True), ("model", False), ("model", True)]

    theatre = on_stage(play, "pm.main", *(f"coder.coder-{n}" for n in range(MANY)))
    returned = [record.at for each in sessions for record in theatre.monitor.records[each] if is_return(record)]
    assert len(returned) == len(sessions)
    assert (max(returned) - min(returned)).total_seconds() < 0.1
    for session in sessions:
        assert len(events(theatre, session, "signalled")) == 1
        came_to = states(theatre, session)
        suspended_at = came_to.index("SUSPEND")
        assert came_to[suspended_at - 1] == came_to[suspended_at + 1]


def test_an_actor_that_is_down_when_the_others_are_restored_is_restored_when_it_is_back() -> None:
    async def play(theatre: Theatre) -> None:
        theatre.outside.down_until = 10 * HOUR
        await theatre.order("s-1")
        await theatre.order("s-2")
        await come_to(theatre, "SUSPEND", "s-1.1")
        await come_to(theatre, "SUSPEND", "s-2.1")
        writer = last(theatre, "s-2.1").incarnation
        actor = next(name for name, process in theatre.processes.items() if process.name == writer)
        theatre.restarts = False
        theatre.kill(theatre.processes[actor])
        Watch(theatre)
        theatre.outside.down_until = 0.0
        await come_to(theatre, "PLANNING", "s-1.1", 2 * ROUND)
        await asyncio.sleep(4 * ROUND)
        assert last(theatre, "s-2.1").state_to == "SUSPEND"
        theatre.start(actor)
        await come_to(theatre, "PLANNING", "s-2.1", 1)
        assert len(await restores(theatre)) == 1

    on_stage(play, "architect.main", "coder.coder-1", "coder.coder-2")


def test_an_outage_that_flaps_restores_nobody_before_it_is_over() -> None:
    flaps = 10

    async def play(theatre: Theatre) -> None:
        results = iter([False, *([True, False] * flaps)])

        async def flap(_: Bus) -> None:
            if not next(results, True):
                raise ConnectionError("overloaded")

        await suspended(theatre)
        watch = Watch(theatre, model(theatre, flap))
        await asyncio.sleep(2 * flaps * ROUND)
        assert last(theatre).state_to == "SUSPEND"
        assert await restores(theatre) == []
        theatre.outside.down_until = 0.0
        await come_to(theatre, "PLANNING", seconds=3 * ROUND)
        assert watch.changes == [("broker", True), ("model", False), ("model", True)]

    on_stage(play)


def test_a_failure_that_no_probe_has_seen_is_over_with_the_next_round() -> None:
    async def play(theatre: Theatre) -> None:
        watch = Watch(theatre)
        await asyncio.sleep(10 * ROUND + 1)
        await suspended(theatre)
        theatre.outside.down_until = 0.0
        await come_to(theatre, "PLANNING", seconds=ROUND)
        assert watch.changes == [("broker", True), ("model", True)]

    on_stage(play)


def test_who_suspends_again_is_restored_again() -> None:
    async def nothing(_: Bus) -> None:
        """It says that it is well, and refuses everybody all the same."""

    async def play(theatre: Theatre) -> None:
        Watch(theatre, model(theatre, nothing))
        await suspended(theatre)
        await asyncio.sleep(4 * ROUND)
        assert len(await restores(theatre)) >= 2
        theatre.outside.down_until = 0.0
        theatre.loop.create_task(theatre.answer_asks())
        await come_to(theatre, "DONE", seconds=2 * ROUND)

    theatre = on_stage(play)
    assert len(theatre.outside.announcements) == 1


def test_nothing_is_dispatched_during_an_outage_and_everything_after_it() -> None:
    async def play(theatre: Theatre) -> None:
        Watch(theatre)
        theatre.loop.create_task(theatre.answer_asks())
        theatre.outside.slowness = 100.0
        await theatre.order("s-1")
        await come_to(theatre, "PLANNING")
        theatre.outside.down_until = theatre.loop.time() + 600
        await asyncio.sleep(2 * ROUND)
        for n in (2, 3, 4):
            await theatre.order(f"s-{n}")
        await asyncio.sleep(500)
        assert set(theatre.monitor.records) & {"s-2.1", "s-3.1", "s-4.1"} == set()
        theatre.outside.slowness = 0.0
        for n in (1, 2, 3, 4):
            await come_to(theatre, "DONE", f"s-{n}.1", 300)

    on_stage(play, "architect.main", "coder.coder-1", "coder.coder-2")


def test_the_next_monitor_waits_for_rounds_of_its_own() -> None:
    async def play(theatre: Theatre) -> None:
        await suspended(theatre)
        first = Watch(theatre)
        await asyncio.sleep(2 * ROUND)
        theatre.outside.down_until = 0.0
        await asyncio.sleep(ROUND)
        theatre.kill(first.process)
        began = theatre.loop.time()
        second = Watch(theatre, name="supervisor.main-2")
        await come_to(theatre, "PLANNING", seconds=2 * ROUND)
        assert theatre.loop.time() - began >= ROUND
        assert second.changes == [("broker", True), ("model", True)]

    on_stage(play)


# Rounds go on.


def test_a_monitor_without_a_broker_goes_on_and_posts_what_it_learns_when_there_is_one() -> None:
    async def play(theatre: Theatre) -> None:
        watch = Watch(theatre)
        await asyncio.sleep(ROUND)
        watch.network.cut_until = theatre.loop.time() + 600
        theatre.outside.down_until = theatre.loop.time() + 300
        await asyncio.sleep(600)
        assert watch.changes == [
            ("broker", True), ("model", True), ("broker", False), ("model", False), ("model", True),
        ]  # fmt: skip
        assert (await service(theatre)).checked_at < theatre.now()
        await asyncio.sleep(2 * ROUND)
        model_is, broker_is = await service(theatre), await service(theatre, "broker")
        assert (model_is.healthy, broker_is.healthy) == (True, True)
        assert (theatre.now() - broker_is.since).total_seconds() <= ROUND
        assert (theatre.now() - model_is.checked_at).total_seconds() <= ROUND
        assert watch.changes[-1] == ("broker", True)

    on_stage(play)


def test_a_probe_that_does_not_let_itself_be_given_up_holds_up_nobody_and_is_not_begun_again() -> None:
    begun: list[float] = []

    async def play(theatre: Theatre) -> None:
        over = theatre.loop.create_future()

        async def deaf(_: Bus) -> None:
            begun.append(theatre.loop.time())
            while not over.done():
                try:
                    await asyncio.shield(over)
                except asyncio.CancelledError:
                    continue

        watch = Watch(theatre, model(theatre, deaf))
        await asyncio.sleep(POLICY.timeout_seconds + ENDING_SECONDS + 1)
        assert len(watch.ready_at) == 1
        assert (await service(theatre)).error == "no answer within 10 s"
        await asyncio.sleep(10 * ROUND)
        assert len(begun) == 1
        assert (await service(theatre)).error == "its last probe was given up, and has not ended yet"
        assert (await service(theatre, "broker")).successes == 11
        over.set_result(None)
        await asyncio.sleep(2 * ROUND)
        assert len(begun) == 3
        assert (await service(theatre)).healthy
        assert not watch.task.done()

    on_stage(play)


def test_whatever_a_probe_raises_is_only_its_own_failure() -> None:
    async def play(theatre: Theatre) -> None:
        raised = iter([SystemExit(1), asyncio.CancelledError(), TimeoutError(), ValueError("no such key")])
        errors = []

        async def raising(_: Bus) -> None:
            raise next(raised)

        watch = Watch(theatre, model(theatre, raising))
        for _ in range(4):
            await asyncio.sleep(1)
            errors.append((await service(theatre)).error)
            await asyncio.sleep(ROUND - 1)
        assert errors == ["1", "CancelledError", "TimeoutError", "no such key"]
        assert not watch.task.done()

    on_stage(play)


def test_a_broker_that_stores_nothing_is_no_end_of_the_monitor() -> None:
    async def play(theatre: Theatre) -> None:
        board = theatre.server.streams[SUBJECTS.key_stream("board")]
        watch = Watch(theatre)
        await asyncio.sleep(1)
        del theatre.server.streams[SUBJECTS.key_stream("board")]
        await asyncio.sleep(3 * ROUND)
        assert watch.changes[-1] == ("broker", False)
        theatre.server.streams[SUBJECTS.key_stream("board")] = board
        await asyncio.sleep(3 * ROUND)
        assert watch.changes[-1] == ("broker", True)
        assert (await service(theatre, "broker")).healthy

    on_stage(play)
