"""The whole company by the real command, on its embedded server: whoever is killed, the work goes on, all are gone."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from protocol.subjects import Subjects
from supervisors.company.place import Place
from supervisors.core.standing import Standing
from tests.contract.world import nats_world
from tests.nats_server import NatsServer
from tests.supervisors.owner import SETTINGS, Owner, end_all, eventually, until

LEAVE_SECONDS = 10.0
"""Twice what the settings let an actor have for what is in hand."""
PROMPTLY_SECONDS = 5.0
"""Less than anything that runs out: a lease, or the time after which a story is delivered again."""
STRICT = SETTINGS.replace("[tree]", "[tree]\nfailures_max = 0").replace(
    'name = "agents",', 'name = "agents", failures_max = 0,'
)
"""Neither the root nor the agents' supervisor bears any failure."""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    """Whose company it is; nobody may be left behind, whatever becomes of the test."""
    owner = Owner(tmp_path)
    yield owner
    left = owner.processes()
    end_all(left)
    assert left == []


async def test_the_company_comes_up_is_shown_and_works(owner: Owner) -> None:
    async with owner.company() as office:
        status, tree = await owner.supervisor("status"), await owner.supervisor("tree")
        await office.order("s-1")
        await office.answer("s-1.1", "yes")
        await office.reaches("s-1.1", "DONE")
        offences = await office.offences()

    assert (status.code, tree.code) == (0, 0)
    assert all(name in tree.out for name in ("broker", "health", "pm", "architect", "coder-1"))
    assert owner.outside.announcements == ["merged s-1"]
    assert offences == []


# Kill -9.


async def test_a_killed_actor_goes_on_with_its_session_and_its_end_is_recorded(owner: Owner) -> None:
    async with owner.company() as office:
        await office.order("s-1")
        await office.asked("s-1.1")
        pid = (await office.pids())["coder-1"]
        os.kill(pid, signal.SIGKILL)
        await office.again("coder-1", pid)
        state = await office.state("s-1.1")
        await office.answer("s-1.1", "yes")
        await office.reaches("s-1.1", "DONE")
        exits = await office.exits("coder-1", 2)
        offences = await office.offences()

    killed, *others = exits
    assert (killed.pid, killed.way, killed.code, killed.reason) == (pid, "crash", -9, "killed by SIGKILL")
    assert (killed.actor, killed.machine) == ("coder.coder-1", "coder")
    assert "actor.started" in killed.said
    assert killed.memory_bytes_max > 0
    assert killed.user_seconds + killed.system_seconds > 0
    assert [each.way for each in others] == ["normal"]
    assert state == "PLANNING"
    assert owner.outside.announcements == ["merged s-1"]
    assert offences == []


async def test_a_killed_zygote_takes_nobody_with_it_and_others_are_forked_by_the_spare(owner: Owner) -> None:
    async with owner.company() as office:
        before = await office.pids()
        os.kill(parent_of(before["coder-1"]), signal.SIGKILL)
        await until("the supervisor has adopted them", lambda: parent_of(before["pm"]) == before["health"])
        os.kill(before["coder-1"], signal.SIGKILL)
        await office.again("coder-1", before["coder-1"])
        after = await office.pids()
        exits = await office.exits("coder-1")

    assert [name for name in before if before[name] != after[name]] == ["coder-1"]
    assert [(each.code, each.memory_bytes_max > 0) for each in exits] == [(-9, True)]


async def test_a_killed_broker_comes_back_at_its_port_and_the_company_goes_on(owner: Owner) -> None:
    async with owner.company() as office:
        await office.order("s-1")
        await office.asked("s-1.1")
        before, url = await office.pids(), server_url(owner)
        os.kill(before["broker"], signal.SIGKILL)
        await office.again("broker", before["broker"])
        await office.answer("s-1.1", "yes")
        await office.reaches("s-1.1", "DONE")
        exits = await office.exits("broker")
        after = await office.pids()
        offences = await office.offences()

    assert server_url(owner) == url
    assert (after["pm"], after["architect"]) == (before["pm"], before["architect"])
    assert [(each.pid, each.way) for each in exits] == [(before["broker"], "crash")]
    assert owner.outside.announcements == ["merged s-1"]
    assert offences == []


async def test_a_broker_whose_port_is_taken_is_waited_for_and_comes_back_there(owner: Owner) -> None:
    """Everybody knows it at that port; at another one it would be lost to them."""
    async with owner.running_supervisor("up") as command:
        await command.until_said("the company is up")
        async with owner.office() as office:
            broker, port = (await office.pids())["broker"], int(server_url(owner))
            with stopped((await office.standing()).pid):
                os.kill(broker, signal.SIGKILL)
                thief = await eventually("the port is free", lambda: listener(port))
            await command.until_said("broker has ended (cut_off): ")
            thief.close()
            await office.again("broker", broker)
            await office.order("s-1")
            await office.answer("s-1.1", "yes")
            await office.reaches("s-1.1", "DONE")
        done = await command.end(signal.SIGINT)

    assert int(server_url(owner)) == port
    assert f"broker has ended (cut_off): port {port}, where the broker is waited for, is in use" in done.err


async def test_when_the_supervisor_is_killed_everybody_finishes_what_is_in_hand_and_leaves(owner: Owner) -> None:
    """The broker outlives it, and the next supervisor goes on with it and with all sessions."""
    await owner.up()
    async with owner.office() as office:
        owner.set_model(thinking_seconds=1.5)
        await office.order("s-1")
        await until("the model is asked", lambda: owner.outside.lines("payments") != [])
        before = await office.standing()
        pids = await office.pids()
        os.kill(before.pid, signal.SIGKILL)
        await until("only the broker is left", lambda: owner.processes() == [pids["broker"]], LEAVE_SECONDS)
        paid = owner.outside.lines("payments")
        done = await office.past("s-1.1")
        owner.set_model()

        await owner.up()
        after = await office.standing()
        await office.answer("s-1.1", "yes")
        await office.reaches("s-1.1", "DONE")
        offences = await office.offences()
        pids_after = await office.pids()
        exits = {name: (await office.exits(name))[0] for name in ("pm", "architect", "coder-1")}
    await owner.stop()

    for name, ended in exits.items():
        assert (ended.pid, ended.way) == (pids[name], "asked")
        assert ended.lived_seconds > 0
        assert ended.memory_bytes_max > 0
        assert "exit" in ended.said
    (effect,) = (line.split()[0] for line in paid)
    assert ("finished", effect) in done
    assert [line.split()[0] for line in owner.outside.lines("payments")].count(effect) == 1
    assert pids_after["broker"] == pids["broker"]
    assert {name: pids_after[name] != pids[name] for name in ("pm", "architect")} == {"pm": True, "architect": True}
    assert starts(after) == {name: count + 1 for name, count in starts(before).items()}
    assert offences == []


async def test_when_supervisor_and_zygote_are_killed_together_nobody_is_left_either(owner: Owner) -> None:
    await owner.up()
    async with owner.office() as office:
        await office.order("s-1")
        await office.asked("s-1.1")
        pids, supervisor = await office.pids(), (await office.standing()).pid
        for pid in (parent_of(pids["coder-1"]), supervisor):
            os.kill(pid, signal.SIGKILL)
        await until("only the broker is left", lambda: owner.processes() == [pids["broker"]], LEAVE_SECONDS)
        await owner.up()
        await office.answer("s-1.1", "yes")
        await office.reaches("s-1.1", "DONE")
    await owner.stop()

    assert owner.outside.announcements == ["merged s-1"]


async def test_stop_ends_whoever_a_killed_supervisor_has_left_behind(owner: Owner) -> None:
    """It does not wait for them: their supervisor is gone, and nobody else would know how long they take."""
    await owner.up()
    async with owner.office() as office:
        owner.set_model(thinking_seconds=60.0)
        await office.order("s-1")
        await until("the model is asked", lambda: owner.outside.lines("payments") != [])
        os.kill((await office.standing()).pid, signal.SIGKILL)
    done = await owner.stop()

    assert "no supervisor runs here" in done.err
    assert "of an earlier company had been left behind, and ended" in done.err


async def test_a_supervisor_that_slept_for_longer_than_anybody_may_kills_nobody_when_it_wakes(owner: Owner) -> None:
    owner.environ["CALLBOARD_SUPERVISOR_HUNG_SECONDS"] = "3"
    async with owner.company() as office:
        before = await office.standing()
        os.kill(before.pid, signal.SIGSTOP)
        slept = asyncio.get_running_loop().time()
        await until("it has slept long enough", lambda: asyncio.get_running_loop().time() > slept + 4.5)
        os.kill(before.pid, signal.SIGCONT)
        woken = datetime.now(UTC)

        async def look() -> Standing | None:
            standing = await office.standing()
            return standing if standing.at > woken + timedelta(seconds=3) else None

        after = await eventually("it has looked at them several times", look)

    assert starts(after) == starts(before)


# A person steers.


async def test_stop_leaves_nothing_running_and_the_next_company_goes_on(owner: Owner) -> None:
    async with owner.company() as office:
        await office.order("s-1")
        await office.asked("s-1.1")
    (folder,) = owner.state.glob("callboard/*/supervisor")
    os.close(Place(folder).claim())
    async with owner.company() as office:
        await office.answer("s-1.1", "yes")
        await office.reaches("s-1.1", "DONE")

    assert owner.outside.announcements == ["merged s-1"]


async def test_a_second_supervisor_is_refused(owner: Owner) -> None:
    async with owner.company() as office:
        refused = await owner.supervisor("up")
        standing = await office.standing()

    assert refused.code == 1
    assert str(standing.pid) in refused.err


async def test_a_second_supervisor_elsewhere_is_refused_by_the_lease(
    shared_server: NatsServer, subjects: Subjects, tmp_path: Path
) -> None:
    """With a state folder of its own it cannot see the first one's lock, only the broker of both."""
    async with nats_world(subjects, shared_server.url, 1):
        first, second = (Owner(tmp_path / name, shared_server.url, subjects.project) for name in ("one", "two"))
        try:
            await first.up()
            refused = await second.supervisor("up")
            await first.stop()
        finally:
            left = [*first.processes(), *second.processes()]
            end_all(left)

    assert refused.code == 1
    assert "the company is running already" in refused.err
    assert left == []


async def test_restart_begins_anew_with_the_same_work(owner: Owner) -> None:
    owner.environ["CALLBOARD_SUPERVISOR_CODERS"] = "2"
    async with owner.company() as office:
        await office.order("s-1")
        await office.asked("s-1.1")
        coder = await office.coder_of("s-1")
        pids = [await office.pids()]
        done = []
        for who in (coder, "coder", "broker"):
            done.append(await owner.supervisor("restart", who))
            pids.append(await office.pids())
        await office.answer("s-1.1", "yes")
        await office.reaches("s-1.1", "DONE")
        failures = {each.name: each.failures for each in (await office.standing()).children}

    assert [each.code for each in done] == [0, 0, 0], [each.err for each in done]
    assert "goes on with s-1.1 in PLANNING" in done[0].out
    changed = [{name for name in now if now[name] != before[name]} for before, now in pairwise(pids)]
    assert changed == [{coder}, {"coder-1", "coder-2"}, {"broker"}]
    assert set(failures.values()) == {0}


async def test_a_story_in_the_hand_of_whoever_is_scaled_away_goes_on_at_once_with_another(owner: Owner) -> None:
    async with owner.company() as office:
        await office.order("s-1")
        await office.asked("s-1.1")
        grown = await owner.supervisor("scale", "coder=8")
        await office.order("s-2")
        await office.asked("s-2.1")
        coder = await office.coder_of("s-2")
        await office.answer("s-1.1", "yes")
        await office.reaches("s-1.1", "DONE")
        shrunk = await owner.supervisor("scale", "coder=1")
        state = await office.state("s-2.1")
        await office.has("coder-1", "s-2", PROMPTLY_SECONDS)
        await office.answer("s-2.1", "yes")
        await office.reaches("s-2.1", "DONE")
        names = {child.name for child in (await office.standing()).children}

    assert (grown.code, shrunk.code) == (0, 0)
    assert grown.out.splitlines()[-1] == "coder: 8"
    assert f"{coder} has ended, and handed over s-2.1" in shrunk.out
    assert (coder != "coder-1", state) == (True, "PLANNING")
    assert {name for name in names if name.startswith("coder")} == {"coder-1"}
    assert owner.outside.announcements == ["merged s-1", "merged s-2"]


async def test_while_a_person_holds_the_brake_nothing_is_begun(owner: Owner) -> None:
    owner.environ["CALLBOARD_BUS_LEASE_SECONDS"] = "4"  # everybody says so every quarter of it
    async with owner.company() as office:
        paused = await owner.supervisor("pause")
        await office.order("s-1")
        status = await owner.supervisor("status")
        before = await office.state("s-1.1")
        resumed = await owner.supervisor("resume")
        await office.asked("s-1.1")

    assert (paused.code, status.code, resumed.code) == (0, 0, 0)
    assert before == ""


async def test_an_outage_is_a_pause_and_restore_ends_it(owner: Owner) -> None:
    async with owner.company() as office:
        owner.set_model(is_up=False)
        await office.order("s-1")
        await office.reaches("s-1.1", "SUSPEND")
        status = await owner.supervisor("status")
        too_early = await owner.supervisor("restore")
        owner.set_model()
        restored = await owner.supervisor("restore")
        await office.answer("s-1.1", "yes")
        await office.reaches("s-1.1", "DONE")

    assert (status.code, too_early.code, restored.code) == (4, 4, 0)
    assert "model is not healthy: overloaded" in too_early.err
    assert restored.out == "coder-1: s-1.1 returned to PLANNING, 1 effect repeated\n"


async def test_a_story_that_came_to_error_comes_again_as_its_next_run(owner: Owner) -> None:
    async with owner.company() as office:
        await office.order("s-1")
        await office.answer("s-1.1", "no")
        await office.reaches("s-1.1", "ERROR")
        await office.answer("s-1.2", "yes")
        await office.reaches("s-1.2", "DONE")
        exits = await office.exits("coder-1", 2)
        failures = (await office.child("coder-1")).failures
        offences = await office.offences()

    assert [each.way for each in exits] == ["error", "normal"]
    assert failures == 0
    assert offences == []


async def test_with_exec_each_actor_has_an_interpreter_of_its_own(owner: Owner) -> None:
    async with owner.company("--exec") as office:
        await office.order("s-1")
        await office.asked("s-1.1")
        pid = (await office.pids())["coder-1"]
        command = command_of(pid)
        os.kill(pid, signal.SIGKILL)
        await office.again("coder-1", pid)
        await office.answer("s-1.1", "yes")
        await office.reaches("s-1.1", "DONE")

    assert b"supervisors.processes.fresh" in command


# In the foreground.


async def test_ctrl_c_ends_the_company_in_order(owner: Owner) -> None:
    async with owner.running_supervisor("up") as command:
        await command.until_said("the company is up")
        done = await command.end(signal.SIGINT)

    assert done.code == 130
    assert "stopping: everybody finishes what is in hand; once more ends it at once" in done.err
    assert done.err.splitlines()[-1].endswith("the company is closed; `supervisor up` goes on with its work")
    assert owner.processes() == []


async def test_a_second_ctrl_c_ends_it_at_once(owner: Owner) -> None:
    async with owner.running_supervisor("up") as command:
        await command.until_said("the company is up")
        async with owner.office() as office:
            owner.set_model(thinking_seconds=60.0)
            await office.order("s-1")
            await until("the model is asked", lambda: owner.outside.lines("payments") != [])
        command.send(signal.SIGINT)
        await command.until_said("stopping")
        began = asyncio.get_running_loop().time()
        done = await command.end(signal.SIGINT)
        took_seconds = asyncio.get_running_loop().time() - began

    assert done.code == 130
    assert "ending at once: what was in hand is done again at the next start, nothing is lost" in done.err
    assert took_seconds < PROMPTLY_SECONDS
    assert owner.processes() == []


async def test_ctrl_c_at_a_terminal_reaches_only_the_supervisor(owner: Owner) -> None:
    """The terminal sends it to everybody in the foreground, who must be nobody else."""
    async with owner.at_terminal("up") as terminal:
        await terminal.until_shown("the company is up")
        terminal.type(b"\x03")
        code = await terminal.ended()
    logs = "".join(path.read_text() for path in owner.state.glob("callboard/*/logs/*.log"))

    assert code == 130
    assert '"exit":"interrupted"' not in logs
    assert owner.processes() == []


async def test_a_company_whose_terminal_is_closed_ends_in_order(owner: Owner) -> None:
    """There is nobody left to tell about it, and that must not keep it from ending."""
    async with owner.at_terminal("up") as terminal:
        await terminal.until_shown("the company is up")
        await terminal.close()
        await until("everybody has ended", lambda: owner.processes() == [])

    (log,) = owner.state.glob("callboard/*/logs/supervisor.log")
    assert '"name":"broker","way":"asked"' in log.read_text()


@pytest.mark.parametrize("words", [("--json",), ()], ids=["data", "talk"])
async def test_whoever_does_not_read_what_it_says_holds_up_nobody(owner: Owner, words: tuple[str, ...]) -> None:
    """The pipe has no room for all of the start, and nobody ever takes anything out."""
    async with owner.supervisor_unread(*words) as process:
        await owner.until_it_runs()
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(LEAVE_SECONDS):
            code = await process.wait()

    assert code == 143
    assert owner.processes() == []


async def test_a_reader_who_has_read_enough_ends_nothing(owner: Owner) -> None:
    async with owner.running_shell("supervisor up --json | head -1") as line:
        first = json.loads(await line.line())
        await owner.until_it_runs()
        await owner.stop()
        done = await line.end()

    assert (first["supervisors"][0]["name"], done.code) == ("company", 0)


async def test_up_in_the_background_says_when_the_company_gives_up_before_it_is_up(owner: Owner) -> None:
    lines = ["import os", "def die(_): os._exit(1)", "from tests.supervisors.company_parts import PM", "import msgspec"]
    lines.append("PART = msgspec.structs.replace(PM, executors=die)")
    (owner.folder / "dying.py").write_text("\n".join(lines))
    owner.settings(STRICT.replace("tests.supervisors.company_parts:PM", "dying:PART"))

    done = await owner.supervisor("up", "--detach")
    status = await owner.supervisor("status")
    await owner.stop()

    assert (done.code, status.code) == (5, 5), done.err
    assert "the company has stopped itself and waits for you: bus answer supervisor." in done.err


DEADLY = """
import os, signal

if open("/proc/self/comm").read().startswith("(zygote"):
    os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGKILL))
from tests.supervisors.company_parts import PM as PART
"""


async def test_a_part_of_which_every_process_dies_before_it_begins_counts_as_failing(owner: Owner) -> None:
    (owner.folder / "deadly.py").write_text(DEADLY)
    owner.settings(STRICT.replace("tests.supervisors.company_parts:PM", "deadly:PART"))

    done = await owner.supervisor("up", "--detach")
    await owner.stop()

    assert done.code == 5, done.err
    assert "the company has stopped itself and waits for you" in done.err
    assert owner.processes() == []


async def test_a_part_that_cannot_be_forked_is_said_once_and_with_what_to_do(owner: Owner) -> None:
    part = "tests.supervisors.unfit_thread"
    owner.settings(SETTINGS.replace("tests.supervisors.company_parts:PM", f"{part}:PART"))

    done = await owner.supervisor("up")

    what = f"importing {part} started a thread (busybody), which no fork survives: set supervisor.processes"
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith(f"supervisor: nobody could be started: pm, architect, coder-1: {what}")
    assert owner.processes() == []


async def test_who_cannot_begin_anew_is_told_with_the_cause_at_once(owner: Owner) -> None:
    (owner.folder / "broken.py").write_text("def (")
    owner.settings(SETTINGS.replace("tests.supervisors.company_parts:PM", "broken:PART"))
    await owner.up()
    done = await owner.supervisor("restart", "pm")
    await owner.stop()

    assert done.code == 1
    assert "pm has no new process: it has ended (configuration)" in done.err
    assert "SyntaxError" in done.err


async def test_where_the_company_gives_up_no_session_is_told_that_a_person_has_closed_it(owner: Owner) -> None:
    owner.settings(STRICT)
    await owner.up()
    async with owner.office() as office:
        owner.set_model(is_up=False)
        await office.order("s-1")
        await office.reaches("s-1.1", "SUSPEND")
        pids = await office.pids()
        os.kill(pids["pm"], signal.SIGKILL)
        ask = await office.asked("gave-up")
        stayed = await office.state("s-1.1")

        owner.set_model()
        await owner.bus("answer", ask, "start again")
        await office.again("coder-1", pids["coder-1"])
        restored = await owner.supervisor("restore")
    await owner.stop()

    assert stayed == "SUSPEND"
    assert restored.out == "coder-1: s-1.1 returned to PLANNING, 1 effect repeated\n", restored.err


async def test_ctrl_c_while_the_broker_starts_leaves_none(owner: Owner) -> None:
    begun, go = owner.slow_server()
    async with owner.running_supervisor("up") as command:
        await until("a server that starts", begun.exists)

        command.send(signal.SIGINT)
        go.touch()
        done = await command.end()

    assert done.code == 130
    assert owner.processes() == []


async def test_a_company_that_was_told_not_to_hear_a_hangup_goes_on_when_the_terminal_is_closed(owner: Owner) -> None:
    async with owner.running_shell("exec nohup supervisor up") as line:
        await owner.until_it_runs()
        line.send(signal.SIGHUP)
        status = await owner.supervisor("status")
        await owner.stop()
        done = await line.end()

    assert (status.code, done.code) == (0, 143), done.err  # 143: that is how `stop` tells it


async def test_when_nothing_helps_a_person_is_asked_and_the_company_goes_on_with_the_answer(owner: Owner) -> None:
    owner.settings(STRICT)
    async with owner.running_supervisor("up") as command:
        await command.until_said("the company is up")
        async with owner.office() as office:
            first = (await office.pids())["pm"]
            os.kill(first, signal.SIGKILL)
            ask = await office.asked("gave-up")
            status = await owner.supervisor("status")
            await owner.bus("answer", ask, "start again")
            os.kill(await office.again("pm", first), signal.SIGKILL)
            await office.asked("gave-up-2")
            again = await owner.supervisor("restart", "health")
            os.kill(await office.again("pm", 0), signal.SIGKILL)
            await office.asked("gave-up-3")
            grown = await owner.supervisor("scale", "coder=2")
            pids = await office.pids()
            os.kill(pids["pm"], signal.SIGKILL)
            await office.answer("gave-up-4", "stop")
        done = await command.end()

    assert (status.code, again.code, grown.code) == (5, 0, 0), again.err + grown.err
    assert {"coder-1", "coder-2"} < set(pids)
    assert f"the company has stopped itself and waits for you: bus answer {ask} 'start again'" in done.err
    assert done.code == 5
    assert owner.processes() == []


@pytest.mark.timeout(120)  # everybody looks for the broker for a while before leaving without it
async def test_a_company_that_has_stopped_itself_without_its_broker_can_still_be_ended(owner: Owner) -> None:
    """Nobody can be asked then: what is to be asked waits for a broker, the person at the terminal must not."""
    owner.settings(STRICT)
    async with owner.running_supervisor("up") as command:
        await command.until_said("the company is up")
        async with owner.office() as office:
            broker = (await office.pids())["broker"]
        os.kill(broker, signal.SIGKILL)
        await command.until_said("the company has stopped itself")
        done = await command.end(signal.SIGINT)

    assert done.code == 5
    assert owner.processes() == []


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Have somebody notice nothing for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def listener(port: int) -> socket.socket | None:
    """Take a port if it is free."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return None


def starts(standing: Standing) -> dict[str, int]:
    """How often each was started."""
    return {each.name: each.starts for each in standing.children}


def command_of(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def server_url(owner: Owner) -> str:
    (port,) = owner.state.glob("callboard/*/broker/port")
    return port.read_text()
