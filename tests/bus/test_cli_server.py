"""The server behind the commands: started on demand, shared, kept when asked for, left as it is, never left behind."""

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bus import opening
from bus.bus import Bus
from bus.errors import BusUnreachableError
from bus.opening import open_bus
from bus.settings import load
from bus.topology import check_topology, plan_topology
from tests.bus.brokers import eventually
from tests.bus.command import EXAMPLE, Done, Person
from tests.contract.world import ACK_WAIT_SECONDS
from tests.nats_server import NatsServer, binary


async def test_a_command_needs_no_server_and_leaves_none_and_nothing_is_forgotten(loner: Person) -> None:
    first = await loner.bus("publish", str(EXAMPLE))
    left = loner.servers()

    again = await loner.bus("publish", str(EXAMPLE), "--json")

    assert first == Done(code=0, out="published todo as revision 1 (project project)\n", err="")
    assert left == []
    assert (again.code, again.data["status"]) == (0, "unchanged")


def environment_of(pid: int) -> str:
    return Path(f"/proc/{pid}/environ").read_text()


async def test_a_server_is_given_no_secret(loner: Person) -> None:
    loner.environ |= {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "PROXY": "http://bob:p4ssword@host", "COLOUR": "red"}
    async with loner.running("tail") as tail:
        await tail.until_said("listening")
        (server,) = loner.servers()
        environ = environment_of(server)
        await tail.end(signal.SIGINT)

    assert "COLOUR=red" in environ
    assert "sk-ant" not in environ
    assert "p4ssword" not in environ


async def test_commands_at_once_share_one_server(loner: Person) -> None:
    async with loner.running("tail") as tail:
        await tail.until_said("listening")
        one = loner.servers()
        others = await asyncio.gather(*(loner.bus("verify") for _ in range(3)))
        still = loner.servers()
        ended = await tail.end(signal.SIGINT)

    assert [other.code for other in others] == [0, 0, 0]
    assert len(one) == 1
    assert still == one
    assert ended.code == 130
    assert loner.servers() == []


async def test_commands_started_together_start_one_server_and_the_last_stops_it(loner: Person) -> None:
    results = await asyncio.gather(*(loner.bus("publish", str(EXAMPLE)) for _ in range(4)))

    assert [result.code for result in results] == [0] * 4
    assert loner.servers() == []
    assert (await loner.bus("publish", str(EXAMPLE), "--json")).data["revision"] == 1


async def test_ctrl_c_while_the_server_starts_leaves_none(loner: Person) -> None:
    begun, go = loner.slow_server()
    async with loner.running("verify") as command:
        await eventually("a server that starts", begun.exists)

        command.send(signal.SIGINT)
        go.touch()
        done = await command.end()

    assert (done.code, done.out, done.err) == (130, "", "bus: interrupted\n")
    assert loner.servers() == []


async def test_the_server_of_a_killed_command_is_ended_by_the_next(loner: Person) -> None:
    async with loner.running("tail") as tail:
        await tail.until_said("listening")
        await tail.end(signal.SIGKILL)
    orphans = loner.servers()

    done = await loner.bus("verify")

    assert len(orphans) == 1
    assert done.code == 0
    assert loner.servers() == []


async def test_a_server_that_is_to_be_kept_stays_until_it_is_stopped(loner: Person) -> None:
    before = await loner.bus("server", "status")
    started = await loner.bus("server", "start", "--json")
    found = await loner.bus("server", "start")
    used = await loner.bus("verify")
    status = await loner.bus("server", "status", "--json")
    stopped = await loner.bus("server", "stop", "--json")
    again = await loner.bus("server", "stop")

    url, pid = started.data["url"], started.data["pid"]
    whose, state = "the embedded server of project project", next((loner.state / "callboard").iterdir())
    assert before == Done(code=0, out=f"{whose} is not running\nits state is in {state}\n", err="")
    assert started.data == {"url": url, "pid": pid, "started": True}
    assert found == Done(code=0, out=f"{url}\n", err=f"{whose} is already running as process {pid}\n")
    assert used.code == 0
    assert status.data == {
        "running": True,
        "url": url,
        "pid": pid,
        "project": "project",
        "state_folder": str(state),
    }
    assert stopped.data == {"stopped": True}
    assert again == Done(code=0, out="", err=f"{whose} was not running\n")


async def test_whoever_leaves_does_not_stop_a_server_that_somebody_wants_to_keep_just_now(loner: Person) -> None:
    try:
        await asyncio.gather(loner.bus("verify"), loner.bus("server", "start"), loner.bus("verify"))

        status = await loner.bus("server", "status", "--json")
    finally:
        await loner.bus("server", "stop")

    assert status.data["running"] is True


async def test_without_a_home_it_says_what_to_set(loner: Person) -> None:
    done = await loner.bus("verify", environ={"HOME": "", "XDG_STATE_HOME": ""})

    assert (done.code, done.out) == (2, "")
    assert "set CALLBOARD_STATE_FOLDER, or HOME" in done.err


async def test_the_embedded_server_is_not_confused_with_another_one(person: Person, shared_server: NatsServer) -> None:
    done = await person.bus("server", "status")

    assert done.code == 0
    assert "is not running\n" in done.out
    assert f"this project uses NATS at {shared_server.url}" in done.err


async def test_a_command_creates_what_is_missing_and_changes_nothing_else(person: Person, project_bus: Bus) -> None:
    topology = plan_topology(project_bus.subjects, ack_wait_seconds=ACK_WAIT_SECONDS)
    events, *_, objects = (plan for plan in topology.streams if "EVENTS" in plan.name or "OBJ" in plan.name)
    await project_bus.broker.ensure_stream(msgspec.structs.replace(events, age_max_seconds=3600.0))
    await project_bus.broker.delete_stream(objects.name)

    done = await person.bus("verify")

    (difference,) = await check_topology(project_bus.broker, topology)
    assert done.code == 0
    assert difference.startswith(f"stream {events.name}: max_age is 3600")


@pytest.fixture
def plain_nats(tmp_path: Path) -> Iterator[NatsServer]:
    """A server without JetStream."""
    server = NatsServer(tmp_path / "plain")
    server.folder.mkdir()
    words = [binary(), "--addr", "127.0.0.1", "--port", "-1", "--ports_file_dir", str(server.folder)]
    server.process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    server.port = server._wait_for_port(server.process.pid)
    yield server
    server.stop()


async def test_a_broker_without_jetstream_is_told_from_a_slow_one(
    plain_nats: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "PREPARE_SECONDS", 0.0)
    loaded = load({"bus.url": plain_nats.url, "project": "plain"}, {}, tmp_path)

    with pytest.raises(BusUnreachableError, match=r"its JetStream does not answer .* enable JetStream there"):
        async with open_bus(loaded, {}, "person"):
            pass


@pytest.mark.parametrize(
    ("key", "data", "reason"),
    [
        ("bus.tls.ca", None, "cannot be read (No such file or directory)"),
        ("bus.tls.ca", b"noise", "is not what TLS needs"),
        ("bus.credentials", None, "cannot be read (No such file or directory)"),
    ],
)
async def test_a_file_of_no_use_is_named_before_anything_is_tried(
    person: Person, key: str, data: bytes | None, reason: str
) -> None:
    file = person.folder / "file"
    if data is not None:
        file.write_bytes(data)
    variable = f"CALLBOARD_{key.upper().replace('.', '_')}"

    done = await person.bus("verify", environ={variable: str(file)})

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"bus: {variable}: {key} ")
    assert reason in done.err
