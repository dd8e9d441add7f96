"""Custody: nobody's exit status is taken by somebody else, and only what is an actor's is ended."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.server.process import birth
from supervisors.company.place import ACTORS_LOCK, Place
from supervisors.processes.custody import Custody
from supervisors.processes.kin import MARK, become_subreaper, children
from tests.supervisors.owner import until

COMPANY = "/a/company/actors.lock"
MARKED = {**os.environ, MARK: COMPANY}


@pytest.fixture
def custody() -> Iterator[Custody]:
    """Whatever a test starts is gone after it."""
    before = children()
    become_subreaper()
    yield Custody(COMPANY)
    for pid in children() - before:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


async def ended(command: str) -> "subprocess.Popen[bytes]":
    """A child that has ended, and that nobody has reaped yet."""
    process = subprocess.Popen(["sh", "-c", command])  # noqa: ASYNC220
    await until("it has ended", lambda: birth(process.pid) is None)
    return process


async def test_an_owner_learns_how_its_process_has_ended_however_late_it_asks(custody: Custody) -> None:
    process = await ended("exit 7")
    custody.own(process.pid, process)

    for _ in range(3):
        custody.reap()

    assert process.wait() == 7


async def test_so_does_an_owner_of_whom_nothing_is_known_if_it_asks_before_the_next_round(custody: Custody) -> None:
    process = await ended("exit 7")

    custody.reap()

    assert process.wait() == 7


async def test_the_server_is_left_to_whoever_looks_after_it(custody: Custody, monkeypatch: pytest.MonkeyPatch) -> None:
    process = await ended("exit 7")
    monkeypatch.setattr("bus.server.process._children", {process.pid: process})

    for _ in range(3):
        custody.reap()

    assert process.wait() == 7


async def test_whom_nobody_asks_for_is_reaped_in_the_second_round(custody: Custody) -> None:
    process = await ended("exit 7")
    process.returncode = 0

    custody.reap()
    custody.reap()

    assert process.pid not in children()


async def test_what_an_actor_has_left_behind_is_ended_with_all_that_it_has_started(
    custody: Custody, tmp_path: Path
) -> None:
    before = children()
    command = "setsid sleep 600 & echo $! > pid; sleep 600"
    stranger = subprocess.Popen(["sh", "-c", command], env=MARKED, cwd=tmp_path)  # noqa: ASYNC220
    stranger.returncode = 0
    pid = tmp_path / "pid"
    await until("it has started something", lambda: pid.exists() and pid.read_text().endswith("\n"))

    await custody.end_strangers()

    assert children() == before
    assert birth(int(pid.read_text())) is None


async def test_who_has_an_owner_or_is_not_an_actors_is_let_live(custody: Custody) -> None:
    owned, unmarked = (
        subprocess.Popen(["sleep", "600"], env=environ)  # noqa: ASYNC220
        for environ in (MARKED, {**os.environ, MARK: "/another/company/actors.lock"})
    )
    custody.own(owned.pid, owned)

    await custody.end_strangers()

    assert [birth(each.pid) is not None for each in (owned, unmarked)] == [True, True]
    for each in (owned, unmarked):
        each.kill()
        each.wait()


def test_what_a_company_has_left_on_its_machine_is_found_by_its_mark_and_ended(
    custody: Custody, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    environ = {**os.environ, MARK: str(tmp_path / ACTORS_LOCK)}
    left = subprocess.Popen(["sleep", "600"], env=environ, start_new_session=True)

    ended = place.end_orphans()

    assert ended == [left.pid]
    assert left.wait() < 0
