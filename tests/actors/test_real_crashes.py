"""Kill -9 and SIGSTOP at every boundary, with real processes on a real server.

A successor takes over at once; the one that was stopped is woken when all is done. Whatever happened: the outcome is
the same, each outside result is there once, repeats are within their bound, nobody spends after waking, and the
journals verify.
"""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from actors.exits import ActorExit
from tests.actors.real_company import Child, RealCompany, Zygote
from tests.nats_server import NatsServer

AT_ONCE = {"kill": 4, "stop": 12}
"""So many companies are played at the same time; those with somebody stopped mostly wait."""
LEASE_SECONDS = 2
BOUNDARIES_MAX = 500
KILLS = 6

pytestmark = pytest.mark.timeout(300)


class Case:
    """One kind of crash for one actor; its boundaries are tried until one is never reached."""

    def __init__(self, machine: str, actor: str, act: str) -> None:
        self.machine = machine
        self.actor = actor
        self.act = act
        self.others = [("architect", "main")] if machine != "architect" else [("coder", "coder-1")]
        self.line = "approved talk-1" if machine == "pm" else "merged s-1"

    async def give_work(self, company: RealCompany) -> None:
        if self.machine == "pm":
            await company.talk("talk-1")
        else:
            await company.order("s-1")


async def play(zygote: Zygote, server: NatsServer, folder: Path, case: Case, at: int) -> bool:
    """One company with a crash at one boundary; False if the process never came that far."""
    project = f"{case.machine}-{case.act}-{at}"
    async with RealCompany.open(zygote, server.url, project, folder / project, LEASE_SECONDS) as company:
        for machine, actor in case.others:
            await company.start(machine, actor)
        first = await company.start(case.machine, case.actor, case.act, at)
        await case.give_work(company)
        mark = folder / project / f"{case.act}-{at}"
        await company.until(lambda: mark.exists() or company.outside.announcements == [case.line])
        if not mark.exists():
            return False
        paid = company.outside.lines("payments")
        await company.start(case.machine, case.actor)
        await company.until(lambda: company.outside.announcements == [case.line])
        await check(company, case, first, at)
        assert len(paid) <= len(company.outside.lines("payments"))
        return True


async def check(company: RealCompany, case: Case, first: Child, at: int) -> None:
    said = f"{case.act} of {case.actor} at {at}"
    if case.act == "stop":
        spent = Counter(company.outside.lines("payments"))
        await asyncio.sleep(LEASE_SECONDS)  # it must have slept longer than what the guard lets pass
        first.signal(signal.SIGCONT)
        async with asyncio.timeout(30):
            assert await first.code == ActorExit.FENCED, said
        assert Counter(company.outside.lines("payments")) == spent, f"{said}: paid after waking"
    assert await company.offences() == [], said
    assert company.outside.announcements == [case.line], said
    if case.machine != "pm":
        assert company.outside.trees == TREES, said
    payments = Counter(line.split()[0] for line in company.outside.lines("payments"))
    assert sum(times - 1 for times in payments.values()) <= 1, said


TREES = [
    "base+line-0",
    "base+line-0+line-1",
    "base+line-0+line-1+line-2",
]


@pytest.mark.parametrize("act", ["kill", "stop"])
@pytest.mark.parametrize(("machine", "actor"), [("coder", "coder-1"), ("architect", "main"), ("pm", "main")])
async def test_a_crash_anywhere_changes_nothing(
    shared_server: NatsServer, tmp_path: Path, machine: str, actor: str, act: str
) -> None:
    case, reached, at = Case(machine, actor, act), 0, 0
    async with Zygote.open() as zygote:
        while at < BOUNDARIES_MAX:
            batch = range(at + 1, at + 1 + AT_ONCE[act])
            async with asyncio.TaskGroup() as companies:
                plays = [companies.create_task(play(zygote, shared_server, tmp_path, case, number)) for number in batch]
            came_so_far = [each.result() for each in plays]
            reached, at = reached + sum(came_so_far), at + AT_ONCE[act]
            if not all(came_so_far):
                break

    assert reached >= {"coder": 60, "architect": 40, "pm": 20}[machine]


async def test_a_server_that_is_killed_under_load_loses_nothing_and_fences_nobody(
    own_server: NatsServer, tmp_path: Path
) -> None:
    coders = [f"coder-{number}" for number in range(4)]
    async with (
        Zygote.open() as zygote,
        RealCompany.open(zygote, own_server.url, "load", tmp_path / "load", lease_seconds=20) as company,
    ):
        await company.start("architect", "main")
        working = [await company.start("coder", coder) for coder in coders]
        for number in range(len(coders)):
            await company.order(f"s-{number}")
        for _ in range(KILLS):
            records = len(await company.transitions())
            own_server.kill()
            await asyncio.to_thread(own_server.start)
            async with asyncio.timeout(30):
                while len(await company.transitions()) <= records and not all(child.code.done() for child in working):
                    await asyncio.sleep(0.02)
        merged = [f"merged s-{number}" for number in range(len(coders))]
        async with asyncio.timeout(50):
            while company.outside.announcements != merged:
                for coder in coders:
                    # A broker that is killed may forget that a story is done: whoever gets it again ends at once.
                    if company.children[coder][-1].code.done():
                        await company.start("coder", coder)
                await asyncio.sleep(0.05)
        everybody = [child for coder in coders for child in company.children[coder]]
        await company.until(lambda: sum(child.code.done() for child in everybody) >= len(coders))

        assert {child.code.result() for child in everybody if child.code.done()} == {ActorExit.DONE}
        assert company.outside.announcements == merged
        assert await company.offences() == []
        payments = Counter(line.split()[0] for line in company.outside.lines("payments"))
        assert set(payments.values()) == {1}
