"""Zygotes: they fork, reap and report; nothing is lost when one is killed, and nobody stays when the supervisor is."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.exits import ActorExit
from protocol.subjects import Subjects
from supervisors.processes.nursery import ZygoteNursery
from supervisors.processes.orders import Order
from tests.contract.world import nats_world
from tests.nats_server import NatsServer

SECONDS_MAX = 30.0


class Company:
    """Orders for idle coders of a project on a real server."""

    def __init__(self, url: str, project: str, folder: Path) -> None:
        self._url = url
        self._project = project
        self.folder = folder

    def order(self, name: str, part: str = "tests.actors.command_parts:CODER") -> Order:
        return Order(
            number=0,
            machine="coder",
            actor=name,
            part=part,
            log=str(self.folder / f"{name}.log"),
            folder=str(self.folder),
            project=self._project,
            url=self._url,
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


@pytest.fixture
async def nursery(company: Company) -> AsyncIterator[ZygoteNursery]:
    nursery = ZygoteNursery()
    yield nursery
    await nursery.close()


async def test_a_forked_actor_runs_and_its_end_is_reported(company: Company, nursery: ZygoteNursery) -> None:
    running = await nursery.start(company.order("coder-1"))
    await company.said("coder-1", "actor.started")
    assert parent_of(running.pid) != os.getpid()

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


async def test_when_a_zygote_is_killed_its_children_live_are_reaped_and_the_spare_takes_over(
    company: Company, nursery: ZygoteNursery
) -> None:
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


async def test_when_the_supervisor_is_killed_everybody_leaves(company: Company) -> None:
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.supervisors.orphaning",
        company.order("coder-1").url or "",
        company.order("coder-1").project or "",
        str(company.folder),
        stdout=asyncio.subprocess.PIPE,
    )
    assert supervisor.stdout is not None
    zygote, child = map(int, (await supervisor.stdout.readline()).split())
    await company.said("coder-1", "actor.started")
    supervisor.kill()
    await supervisor.wait()

    async with asyncio.timeout(SECONDS_MAX):
        while is_there(zygote) or is_there(child):
            await asyncio.sleep(0.01)
    assert '"exit":"left"' in company.log("coder-1")
