"""Zygotes: they fork, reap and report; nothing is lost when one is killed, and nobody stays when the supervisor is."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import pytest

from actors.exits import ActorExit
from protocol.subjects import Subjects
from supervisors.errors import StartError
from supervisors.processes.custody import Custody
from supervisors.processes.exits import EXITS, Unheard, forget, leave, read
from supervisors.processes.kin import children, company_of
from supervisors.processes.nursery import Soil, ZygoteNursery, _Zygote
from supervisors.processes.orders import Loaded, Order
from supervisors.processes.running import Running, tethers
from tests.contract.world import nats_world
from tests.nats_server import NatsServer
from tests.supervisors.owner import end_all, until

SECONDS_MAX = 30.0

Kind = Literal["fork", "exec"]


class Company:
    """Orders for idle coders of a project on a real server."""

    def __init__(self, url: str, project: str, folder: Path) -> None:
        self.url = url
        self.project = project
        self.folder = folder

    def order(self, name: str, part: str = "tests.actors.command_parts:CODER") -> Order:
        return Order(
            machine="coder",
            actor=name,
            part=part,
            log=str(self.folder / f"{name}.log"),
            folder=str(self.folder),
            project=self.project,
            url=self.url,
        )

    async def said(self, name: str, event: str) -> None:
        async with asyncio.timeout(SECONDS_MAX):
            while event not in self.log(name):
                await asyncio.sleep(0.01)

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""


def parent_of(pid: int) -> int:
    return int(_status(pid)[1])


def is_there(pid: int) -> bool:
    """Whether it runs; one that nobody has reaped yet does not."""
    try:
        return _status(pid)[0] != "Z"
    except FileNotFoundError:
        return False


def is_listed(pid: int) -> bool:
    """Whether the machine knows it, if only because nobody has reaped it."""
    return Path(f"/proc/{pid}").exists()


def _status(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@pytest.fixture
async def company(
    shared_server: NatsServer, subjects: Subjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Company]:
    monkeypatch.setenv("OUTSIDE", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    async with nats_world(subjects, shared_server.url, 1):
        yield Company(shared_server.url, subjects.project, tmp_path)


@pytest.fixture(params=get_args(Kind))
async def nursery(company: Company, request: pytest.FixtureRequest) -> AsyncIterator[ZygoteNursery]:
    async with nursery_of(company, request.param) as nursery:
        yield nursery


@pytest.fixture
async def zygotes(company: Company) -> AsyncIterator[ZygoteNursery]:
    async with nursery_of(company, "fork") as nursery:
        yield nursery


LITTLE_SECONDS = 2.0


@pytest.fixture(params=get_args(Kind))
async def hasty(company: Company, request: pytest.FixtureRequest) -> AsyncIterator[ZygoteNursery]:
    with lock_of(company) as lock:
        nursery = ZygoteNursery(soil_of(company, lock, processes=request.param, orphan_seconds=LITTLE_SECONDS))
        yield nursery
        await nursery.close()


@asynccontextmanager
async def nursery_of(company: Company, kind: Kind) -> AsyncIterator[ZygoteNursery]:
    with lock_of(company) as lock:
        nursery = ZygoteNursery(soil_of(company, lock, processes=kind, modules=("tests.actors.command_parts",)))
        yield nursery
        await nursery.close()


@contextmanager
def lock_of(company: Company) -> Iterator[int]:
    lock = os.open(company.folder / "lock", os.O_RDWR | os.O_CREAT)
    yield lock
    os.close(lock)


def soil_of(company: Company, lock: int, **facts: Any) -> Soil:
    return Soil(**{"folder": str(company.folder), "lock": lock, "orphan_seconds": 15.0, **facts})


async def ready(running: Running) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not running.is_ready:
            await running.changed.wait()


async def test_an_actor_runs_says_that_it_is_ready_and_lives_and_its_end_is_reported(
    company: Company, nursery: ZygoteNursery
) -> None:
    running = await nursery.start(company.order("coder-1"))
    await ready(running)
    pulses = running.pulses
    async with asyncio.timeout(SECONDS_MAX):
        while running.pulses < pulses + 2:
            await asyncio.sleep(0.01)

    running.signal(signal.SIGTERM)
    ended = await running.wait()

    assert ended.code == ActorExit.TERMINATED
    assert ended.resources.memory_bytes_max > 0
    assert running.is_gone


async def test_a_part_that_is_not_there_is_a_matter_of_configuration(company: Company, nursery: ZygoteNursery) -> None:
    running = await nursery.start(company.order("coder-1", part="nowhere:CODER"))

    assert (await running.wait()).code == ActorExit.CONFIGURATION
    assert "nowhere" in company.log("coder-1")


async def test_a_killed_actor_is_reported_with_its_signal(company: Company, nursery: ZygoteNursery) -> None:
    running = await nursery.start(company.order("coder-1"))
    running.signal(signal.SIGKILL)

    assert (await running.wait()).code == -signal.SIGKILL


async def test_a_broker_that_is_away_is_no_crash_of_the_actors(company: Company, nursery: ZygoteNursery) -> None:
    order = msgspec.structs.replace(company.order("coder-1"), url="nats://127.0.0.1:1")
    running = await nursery.start(order)

    assert (await running.wait()).code == ActorExit.UNREACHABLE


async def test_an_actor_that_is_let_go_leaves(company: Company, nursery: ZygoteNursery) -> None:
    running = await nursery.start(company.order("coder-1"))
    await ready(running)
    running.let_go()

    assert (await running.wait()).code == ActorExit.LEFT


async def test_nobody_is_left_when_a_nursery_is_closed(company: Company) -> None:
    for kind in get_args(Kind):
        async with nursery_of(company, kind) as nursery:
            children = [await nursery.start(company.order(f"{kind}-{number}")) for number in range(2)]
            for child in children:
                await ready(child)
        assert not any(is_there(child.pid) for child in children)


async def test_a_forked_actor_is_no_child_of_the_supervisors(company: Company, zygotes: ZygoteNursery) -> None:
    running = await zygotes.start(company.order("coder-1"))

    assert parent_of(running.pid) in zygotes.pids


async def test_a_zygote_that_hangs_is_killed_and_the_spare_takes_over(
    company: Company, zygotes: ZygoteNursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisors.processes.nursery.FORK_SECONDS", 0.5)
    first = await zygotes.start(company.order("coder-1"))
    await ready(first)
    os.kill(parent_of(first.pid), signal.SIGSTOP)

    second = await zygotes.start(company.order("coder-2"))
    await ready(second)
    second.signal(signal.SIGTERM)

    assert (await second.wait()).code == ActorExit.TERMINATED
    assert not first.is_gone


async def test_whoever_ends_under_a_zygote_that_hangs_is_missed_and_reaped(
    company: Company, zygotes: ZygoteNursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisors.processes.nursery.REPORT_SECONDS", 0.3)
    first, second = [await zygotes.start(company.order(f"coder-{number}")) for number in range(2)]
    await ready(second)
    os.kill(parent_of(first.pid), signal.SIGSTOP)

    os.kill(first.pid, signal.SIGKILL)

    async with asyncio.timeout(SECONDS_MAX):
        assert (await first.wait()).code == -signal.SIGKILL
    assert not second.is_gone


DEADLY = """
import os, signal

os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGKILL))
"""


async def test_an_order_that_no_zygote_survives_is_given_up(company: Company) -> None:
    (company.folder / "deadly.py").write_text(DEADLY)
    with lock_of(company) as lock:
        nursery = ZygoteNursery(soil_of(company, lock, modules=("deadly",)))
        with pytest.raises(StartError, match="3 zygotes died"):
            await nursery.start(company.order("coder-1"))
        await nursery.close()


async def test_who_begins_after_nobody_waits_for_it_any_more_leaves_again(
    company: Company, zygotes: ZygoteNursery
) -> None:
    first = await zygotes.start(company.order("coder-1"))
    os.kill(parent_of(first.pid), signal.SIGSTOP)
    starting = asyncio.ensure_future(zygotes.start(company.order("coder-2")))
    (zygote,) = [each for each in zygotes._custody.owners if isinstance(each, _Zygote) and each._children]
    await until("it is asked for", lambda: bool(zygote._starting))

    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    os.kill(zygote.pid, signal.SIGCONT)

    await until("it has begun", lambda: not zygote._starting)
    await until("it has left", lambda: zygotes._running == [first])


async def test_a_spare_that_dies_while_it_stands_by_is_replaced_at_once(
    company: Company, zygotes: ZygoteNursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisors.processes.nursery.SPARE_SECONDS", 0.0)
    active = parent_of((await zygotes.start(company.order("coder-1"))).pid)
    await until("a spare stands by", lambda: len(zygotes.pids) == 2)
    (spare,) = zygotes.pids - {active}

    os.kill(spare, signal.SIGKILL)

    await until("another one does", lambda: len(zygotes.pids - {active, spare}) == 1)


async def test_a_spare_that_died_while_it_was_loading_fails_nobody(company: Company, zygotes: ZygoteNursery) -> None:
    active = parent_of((await zygotes.start(company.order("coder-1"))).pid)
    loading = [each for each in zygotes._custody.owners if isinstance(each, _Zygote) and each.pid != active]
    for zygote in loading:
        os.kill(zygote.pid, signal.SIGKILL)
    await until("it is gone", lambda: all(zygote.is_gone for zygote in loading))
    os.kill(active, signal.SIGKILL)

    running = await zygotes.start(company.order("coder-2"))

    assert parent_of(running.pid) not in (active, *(zygote.pid for zygote in loading))


async def test_who_hangs_while_a_nursery_is_closed_has_the_same_limit_as_all_others(
    company: Company, hasty: ZygoteNursery
) -> None:
    hung = [await hasty.start(company.order(f"coder-{number}")) for number in range(4)]
    for running in hung:
        running.signal(signal.SIGSTOP)
    began = asyncio.get_running_loop().time()

    await hasty.close()

    assert asyncio.get_running_loop().time() - began < 3 * LITTLE_SECONDS
    assert not any(is_there(running.pid) for running in hung)


async def test_more_orders_at_once_than_a_socket_has_room_for_are_all_followed_by_the_same_zygote(
    company: Company, zygotes: ZygoteNursery
) -> None:
    first = await zygotes.start(company.order("coder-0"))
    orders = [company.order(f"coder-{number}", part=f"nowhere:{'C' * 10_000}") for number in range(1, 41)]

    started = await asyncio.gather(*[zygotes.start(order) for order in orders])

    assert {(await running.wait()).code for running in started} == {ActorExit.CONFIGURATION}
    assert parent_of(first.pid) in zygotes.pids


@pytest.mark.parametrize("steps", range(3))
async def test_a_zygote_that_is_given_up_while_it_loads_leaves_nothing_open(company: Company, steps: int) -> None:
    with lock_of(company) as lock:
        before = sockets(), children()

        loading = asyncio.ensure_future(_Zygote.load(soil_of(company, lock), Custody(company_of(lock)), print))
        for _ in range(steps):
            await asyncio.sleep(0)
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)

        assert (sockets(), children()) == before


@asynccontextmanager
async def impostor(company: Company) -> AsyncIterator[tuple[_Zygote, socket.socket]]:
    """Something that is taken for a zygote, and its end of the line, so that a test can say what it says."""
    ours, its = tethers()
    process = subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220
    process.returncode = 0  # the custody reaps it
    zygote = _Zygote(process.pid, os.pidfd_open(process.pid), ours, Custody(str(company.folder)), lambda _: None)
    with its:
        yield zygote, its
    await zygote.close()


async def test_a_zygote_that_says_it_has_loaded_when_it_was_just_given_up_is_not_heard(company: Company) -> None:
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))

    async with impostor(company) as (zygote, its):
        zygote._loaded.cancel()
        its.send(msgspec.json.encode(Loaded(pid=zygote.pid)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert failures == []


async def test_what_a_zygote_said_before_it_was_killed_over_unread_orders_is_heard(company: Company) -> None:
    async with impostor(company) as (zygote, its):
        its.send(msgspec.json.encode(Loaded(pid=zygote.pid)))
        zygote._orders.send(b"an order")
        its.close()
        await until("it is gone", lambda: zygote.is_gone)

    assert zygote._loaded.exception() is None


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("unfit_thread", r"started a thread \(busybody\)"),
        ("unfit_unknown_thread", r"started a thread \(a native one\)"),
        ("unfit_socket", r"opened a connection or a loop \(socket:.+\)"),
        ("unfit_loop", r"opened a connection or a loop \(.+eventpoll.+\)"),
    ],
)
async def test_a_module_whose_import_no_fork_survives_is_refused_with_what_to_do(
    company: Company, module: str, reason: str
) -> None:
    with lock_of(company) as lock:
        nursery = ZygoteNursery(soil_of(company, lock, folder=".", modules=(f"tests.supervisors.{module}",)))

        with pytest.raises(StartError, match=rf'{reason}.*set supervisor.processes = "exec"'):
            await nursery.start(company.order("coder-1"))

        await nursery.close()


async def test_when_a_zygote_is_killed_its_children_live_are_reaped_and_the_spare_takes_over(
    company: Company, zygotes: ZygoteNursery
) -> None:
    nursery = zygotes
    first = await nursery.start(company.order("coder-1"))
    await company.said("coder-1", "actor.started")
    os.kill(parent_of(first.pid), signal.SIGKILL)

    second = await nursery.start(company.order("coder-2"))
    await company.said("coder-2", "actor.started")
    assert not first.is_gone
    first.signal(signal.SIGTERM)
    second.signal(signal.SIGTERM)

    assert (await first.wait()).code == ActorExit.TERMINATED
    assert (await second.wait()).code == ActorExit.TERMINATED


@pytest.mark.parametrize("kind", get_args(Kind))
async def test_when_the_supervisor_is_killed_everybody_leaves(company: Company, kind: Kind) -> None:
    async with orphaning(company, kind) as orphans:
        await company.said("coder-1", "actor.started")
        orphans.supervisor.kill()
        await orphans.supervisor.wait()

        await until_gone(orphans.zygote, *orphans.actors)
    assert '"exit":"left"' in company.log("coder-1")


@pytest.mark.parametrize("kind", get_args(Kind))
async def test_who_hangs_when_the_supervisor_is_killed_is_ended_though_reports_to_it_lie_unread(
    company: Company, kind: Kind
) -> None:
    """A socket whose other end was closed over unread packets says an error before it says its end."""
    async with orphaning(company, kind, actors=2, orphan_seconds=1.0) as orphans:
        hung, other = orphans.actors
        os.kill(hung, signal.SIGSTOP)
        orphans.supervisor.send_signal(signal.SIGSTOP)
        os.kill(other, signal.SIGKILL)
        await until_gone(other)
        orphans.supervisor.kill()
        await orphans.supervisor.wait()

        await until_gone(orphans.zygote, hung)


async def test_when_supervisor_and_zygote_are_killed_the_spare_ends_who_hangs(company: Company) -> None:
    async with orphaning(company, orphan_seconds=1.0) as orphans:
        os.kill(orphans.actors[0], signal.SIGSTOP)
        orphans.supervisor.kill()
        os.kill(orphans.zygote, signal.SIGKILL)
        await orphans.supervisor.wait()

        await until_gone(*orphans.actors, orphans.spare)


class Orphans(NamedTuple):
    """Who is there when a supervisor is killed."""

    supervisor: asyncio.subprocess.Process
    zygote: int
    spare: int
    actors: list[int]


@asynccontextmanager
async def orphaning(
    company: Company, kind: Kind = "fork", *, actors: int = 1, orphan_seconds: float = 15.0
) -> AsyncIterator[Orphans]:
    """A supervisor to be killed; nobody is left behind, whatever becomes of the test."""
    supervisor = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.supervisors.orphaning"),
        *(company.url, company.project, str(company.folder), kind, str(actors), str(orphan_seconds)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert supervisor.stdout is not None
    zygote, spare, *pids = map(int, (await supervisor.stdout.readline()).split())
    try:
        yield Orphans(supervisor, zygote, spare, pids)
    finally:
        end_all([pid for pid in (supervisor.pid, zygote, spare, *pids) if is_there(pid)])
        await supervisor.wait()


async def until_gone(*pids: int) -> None:
    """Wait until they run no more."""
    await until(f"nobody of {pids} is there", lambda: not any(map(is_there, pids)))


def sockets() -> set[str]:
    """The sockets that this process has open."""
    links = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return {name for each in links if (name := str(each.readlink())).startswith("socket:")}


def test_what_was_written_down_of_exits_is_read_whatever_else_stands_there(tmp_path: Path) -> None:
    unheard = Unheard(machine="coder", actor="coder-1", log="coder-1.log", pid=7, code=-9, lived_seconds=1.5)
    leave(str(tmp_path / "actors.lock"), unheard)
    with (tmp_path / EXITS).open("ab") as file:
        file.write(b"[" * 100_000 + b'\nno json\n{"machine": 7}\n\xff\n')
    leave(str(tmp_path / "actors.lock"), unheard)

    assert read(tmp_path) == [unheard, unheard]
    forget(tmp_path)
    forget(tmp_path)
    assert read(tmp_path) == []
