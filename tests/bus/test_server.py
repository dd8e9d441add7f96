"""The embedded server for real: started, adopted, killed, stopped, and told apart from its failures."""

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from bus.errors import (
    DiskFullError,
    ForeignFolderError,
    PermissionDeniedError,
    PortInUseError,
    PortLostError,
    ServerBinaryError,
    ServerError,
    ServerStartError,
    StorageFullError,
)
from bus.jetstream.broker import JetStreamBroker
from bus.jetstream.connection import Connection, ConnectOptions
from bus.server import RunningServer, credentials, find_running, lifecycle, start_or_adopt, stop
from bus.server.config import identities_config, server_config
from bus.server.process import birth, end_process, signal_process
from bus.settings.model import MIB, Server
from bus.topology import apply_topology, plan_topology
from protocol.subjects import ROLES, Role, Subjects
from tests.nats_server import binary, free_port

SUBJECTS = Subjects("embedded")
SETTINGS = Server(stop_seconds=5.0)
WAIT_SECONDS = 10.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose server, if there is one, is stopped afterwards; no process may be left."""
    binary()
    place = tmp_path / "server"
    try:
        yield place
        stop(place)
    finally:
        left = end_all(place)
    assert left == []


def end_all(folder: Path) -> list[int]:
    """End what still runs there, for a test that failed or was interrupted while nothing was written down of it."""
    left = servers_of(folder)
    for pid in left:
        end_process(pid, birth(pid) or 0, SETTINGS.stop_seconds)
    return left


def servers_of(folder: Path) -> list[int]:
    """The pids of all processes that run with this folder's configuration."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended while we looked
        if str(folder / "server.conf").encode() in command:
            found.append(int(process.name))
    return found


def start(folder: Path, settings: Server = SETTINGS, *, keep: bool = False) -> RunningServer:
    return start_or_adopt(folder, SUBJECTS, settings, keep=keep)


@asynccontextmanager
async def connected(server: RunningServer, role: Role = "supervisor") -> AsyncIterator[JetStreamBroker]:
    options = ConnectOptions(
        url=server.url, inbox_prefix=SUBJECTS.inbox(role), secrets=credentials(server.folder, role)
    )
    broker = JetStreamBroker(await Connection.open(options))
    try:
        yield broker
    finally:
        await broker.close()


def until(condition: Callable[[], bool], awaited: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited for {awaited}"
        time.sleep(0.005)


async def fill(broker: JetStreamBroker, count: int) -> None:
    """Store so many events of a quarter of a mebibyte."""
    for number in range(count):
        await broker.publish(SUBJECTS.event("pm", f"e-{number}"), bytes(256 * 1024))


def fake_server(folder: Path, *lines: str) -> Server:
    """Settings with a program that says the right version and then does as told."""
    path = folder / "fake-server"
    version = '[ "$1" = --version ] && echo nats-server: v2.15.1 && exit'
    path.write_text("\n".join(["#!/bin/sh", version, *lines, ""]))
    path.chmod(0o700)
    return Server(binary=str(path), start_seconds=0.5)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


# Starting.


async def test_a_started_server_is_on_loopback_and_knows_every_role(folder: Path) -> None:
    server = start(folder)

    for role in ROLES:
        async with connected(server, role) as broker:
            assert broker.message_bytes_max == 1 * MIB + 64 * 1024

    assert server == RunningServer(url=server.url, pid=server.pid, started_by_us=True, folder=folder, keep=False)
    assert server.url.startswith("nats://127.0.0.1:")
    assert servers_of(folder) == [server.pid]


def test_a_started_server_listens_nowhere_else(folder: Path) -> None:
    server = start(folder)

    sockets = {str(link.readlink()) for link in Path(f"/proc/{server.pid}/fd").iterdir()}
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]

    port = int(server.url.rpartition(":")[2])
    assert listening == [f"0100007F:{port:04X}"]


def test_a_started_server_is_in_a_session_of_its_own(folder: Path) -> None:
    server = start(folder)

    assert os.getsid(server.pid) == server.pid


def test_all_files_are_for_their_owner_alone(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    server = start(folder)

    entries = [path for path in folder.rglob("*") if path.name != "data" and folder / "data" not in path.parents]
    files = {path.relative_to(folder).as_posix(): mode(path) for path in entries if path.is_file()}

    assert [mode(folder), mode(folder / "credentials"), mode(folder / "data")] == [0o700] * 3
    assert {name: files[name] for name in files if files[name] & 0o077} == {}
    private = {"server.conf", "identities.conf", "server.json", *(f"credentials/{role}.nk" for role in ROLES)}
    assert {name: files[name] for name in private} == dict.fromkeys(private, 0o600)
    assert server.pid == json.loads((folder / "server.json").read_bytes())["pid"]


def other_files(folder: Path) -> list[Path]:
    """Every file but the keys."""
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".nk"]


async def test_seeds_are_in_no_file_but_their_own_and_in_no_log(folder: Path) -> None:
    with capture_logs() as logs:
        server = start(folder)
        for role in ROLES:
            async with connected(server, role):
                pass
        stop(folder)
    seeds = [credentials(folder, role)["nkeys_seed_str"] for role in ROLES]

    files = other_files(folder)
    leaks = [path for path in files for seed in seeds if seed.encode() in path.read_bytes()]

    assert len(set(seeds)) == len(ROLES)
    assert {path.name for path in files} >= {"server.conf", "identities.conf", "server.log"}
    assert leaks == []
    assert [event["event"] for event in logs] == ["server.started", "server.stopped"]
    assert not any(seed in str(logs) for seed in seeds)


def test_keys_and_port_stay_across_a_restart(folder: Path) -> None:
    first = start(folder)
    before = {role: credentials(folder, role) for role in ROLES}
    stop(folder)

    second = start(folder)

    assert (second.url, second.started_by_us) == (first.url, True)
    assert second.pid != first.pid
    assert {role: credentials(folder, role) for role in ROLES} == before


def test_who_lost_its_port_is_elsewhere_unless_its_clients_know_it_there(folder: Path) -> None:
    url = start(folder).url
    port = int(url.rpartition(":")[2])
    stop(folder)
    with socket.create_server(("127.0.0.1", port)):
        with pytest.raises(PortLostError, match=str(port)):
            start_or_adopt(folder, SUBJECTS, SETTINGS, keep=True, port=port)
        elsewhere = start(folder)
        with pytest.raises(PortLostError, match=str(port)):
            start_or_adopt(folder, SUBJECTS, SETTINGS, keep=True, port=port)
        stop(folder)

    back = start_or_adopt(folder, SUBJECTS, SETTINGS, keep=True, port=port)

    assert elsewhere.url != url
    assert back.url == url


def test_a_configured_port_is_used(folder: Path) -> None:
    port = free_port()

    assert start(folder, Server(port=port)).url == f"nats://127.0.0.1:{port}"


def test_settings_reach_the_configuration(tmp_path: Path) -> None:
    tmp_path.joinpath("data").mkdir()
    safe = server_config(tmp_path, SUBJECTS, Server(), -1, MIB).decode()
    fast = server_config(tmp_path, SUBJECTS, Server(sync="default", store_bytes_max=123456789), -1, MIB).decode()

    assert '"sync_interval":"always"' in safe
    assert "sync_interval" not in fast
    assert '"max_file_store":123456789' in fast
    assert "http" not in safe


async def test_a_limit_for_the_store_is_kept(folder: Path) -> None:
    server = start(folder, Server(store_bytes_max=2 * MIB))

    async with connected(server) as broker:
        await apply_topology(broker, plan_topology(SUBJECTS))
        with pytest.raises(StorageFullError):
            await fill(broker, 20)


# Adopting.


def test_another_project_does_not_take_over_a_folder_that_has_a_server(folder: Path) -> None:
    running = start_or_adopt(folder, SUBJECTS, SETTINGS, keep=True)

    with pytest.raises(ForeignFolderError) as refusal:
        start_or_adopt(folder, Subjects("tow"), SETTINGS, keep=False)

    assert (refusal.value.owner, refusal.value.project) == ("embedded", "tow")
    found = find_running(folder)
    assert found is not None
    assert found.pid == running.pid


def test_a_second_start_adopts_the_running_one(folder: Path) -> None:
    first = start(folder)

    second = start(folder)

    assert second == msgspec.structs.replace(first, started_by_us=False)
    assert find_running(folder) == second
    assert servers_of(folder) == [first.pid]


def test_keep_once_said_holds_until_the_server_is_stopped(folder: Path) -> None:
    said = [start(folder).keep, start(folder, keep=True).keep, start(folder).keep]
    stop(folder)

    assert [*said, start(folder).keep] == [False, True, True, False]


def test_starters_at_the_same_time_get_one_server(folder: Path) -> None:
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from bus.server import start_or_adopt
        from bus.settings.model import Server
        from protocol.subjects import Subjects
        sys.stdin.readline()
        server = start_or_adopt(Path(sys.argv[1]), Subjects("embedded"), Server(), keep=True)
        print("result", server.pid, server.started_by_us)
        """
    )
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]

    with ThreadPoolExecutor() as pool:
        outputs = [out for out, _ in pool.map(lambda starter: starter.communicate("go\n", timeout=30), starters)]
    results = [line.split()[1:] for out in outputs for line in out.splitlines() if line.startswith("result")]

    assert len({pid for pid, _ in results}) == 1
    assert sorted(started for _, started in results) == ["False", "False", "True"]
    assert servers_of(folder) == [int(results[0][0])]  # it has outlived them all


def test_threads_that_start_at_the_same_time_get_one_server(folder: Path) -> None:
    with ThreadPoolExecutor() as pool:
        servers = list(pool.map(lambda _: start(folder), range(4)))

    assert sorted(server.started_by_us for server in servers) == [False, False, False, True]
    assert servers_of(folder) == [servers[0].pid]


async def test_an_adopted_server_takes_changed_permissions_without_a_restart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start(folder)
    with monkeypatch.context() as older:
        # What an older version of this program would have granted: the coder's key is worth the owner's.
        older.setattr(lifecycle, "identities_config", _with_the_coder_as_owner)
        start(folder)
    subject = SUBJECTS.control()
    async with connected(server) as owner:
        await apply_topology(owner, plan_topology(SUBJECTS))
    async with connected(server, "coder") as coder:
        before = await coder.publish(subject, b"1")

    adopted = start(folder)

    assert (before.sequence, adopted.pid) == (1, server.pid)
    async with connected(server, "coder") as coder:
        with pytest.raises(PermissionDeniedError):
            await coder.publish(subject, b"2")


def _with_the_coder_as_owner(subjects: Subjects, keys: dict[Role, str]) -> bytes:
    accounts = json.loads(identities_config(subjects, keys).removeprefix(b"accounts: "))
    accounts["CALLBOARD_CODER"]["users"] = []
    accounts["CALLBOARD"]["users"].append({"nkey": keys["coder"]})
    return b"accounts: " + json.dumps(accounts).encode()


# Dying.


async def test_after_kill_9_a_new_start_has_the_port_and_all_that_was_acknowledged(folder: Path) -> None:
    server = start(folder)
    stream, subject = SUBJECTS.stream("EVENTS"), SUBJECTS.event("coder", "c-1")
    async with connected(server) as broker:
        await apply_topology(broker, plan_topology(SUBJECTS))
        acknowledged = [(await broker.publish(subject, secrets.token_bytes(1000))).sequence for _ in range(50)]
        os.kill(server.pid, signal.SIGKILL)
        until(lambda: find_running(folder) is None, "the end of the server")

        again = await asyncio.to_thread(start, folder)

        # The same connection: it comes back by itself, because the port is the same.
        await broker.connection.wait_until_up()
        read = [message.sequence async for message in broker.read(stream, subject)]
    assert (again.url, again.started_by_us) == (server.url, True)
    assert read == acknowledged
    assert not (folder / f"nats-server_{server.pid}.ports").exists()


def test_a_recorded_port_that_a_stranger_has_taken_is_replaced(folder: Path) -> None:
    first = start(folder)
    stop(folder)

    with socket.create_server(("127.0.0.1", int(first.url.rpartition(":")[2]))):
        second = start(folder)

    assert second.url != first.url
    assert find_running(folder) == msgspec.structs.replace(second, started_by_us=False)


def test_a_server_that_nobody_wrote_down_is_replaced_and_not_joined_on_its_store(folder: Path) -> None:
    first = start(folder)
    (folder / "server.json").unlink()

    second = start(folder)

    assert second.started_by_us
    assert second.url == first.url
    assert servers_of(folder) == [second.pid]


def test_a_server_that_cannot_be_identified_keeps_others_off_its_store(folder: Path) -> None:
    first = start(folder)
    record = (folder / "server.json").read_bytes()
    (folder / "server.json").unlink()
    (folder / "server.pid").unlink()

    try:
        with pytest.raises(ServerError, match=r"running\.lock"):
            start(folder)
    finally:
        (folder / "server.json").write_bytes(record)

    assert servers_of(folder) == [first.pid]


def test_a_test_that_breaks_off_leaves_no_server_behind(folder: Path) -> None:
    server = start(folder)
    (folder / "server.json").unlink()
    (folder / "server.pid").unlink()

    assert stop(folder) is False
    assert end_all(folder) == [server.pid]

    assert servers_of(folder) == []


def test_a_frozen_server_is_replaced(folder: Path) -> None:
    first = start(folder)
    born = birth(first.pid)
    assert born is not None
    signal_process(first.pid, born, signal.SIGSTOP)
    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)  # the signal works only after a moment

    assert find_running(folder) is None
    second = start(folder, Server(start_seconds=1.0, stop_seconds=0.2))

    assert second.started_by_us
    assert servers_of(folder) == [second.pid]


def test_a_server_that_somebody_keeps_is_replaced_only_by_a_keeper(folder: Path) -> None:
    """That a command cannot reach it, from a sandbox for one, does not mean that nobody can."""
    first = start(folder, keep=True)
    born = birth(first.pid)
    assert born is not None
    signal_process(first.pid, born, signal.SIGSTOP)
    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
    impatient = Server(start_seconds=0.3, stop_seconds=0.2)

    with pytest.raises(ServerError, match=rf"runs as process {first.pid} and does not answer"):
        start(folder, impatient)
    assert servers_of(folder) == [first.pid]
    second = start(folder, Server(start_seconds=1.0, stop_seconds=0.2), keep=True)

    assert servers_of(folder) == [second.pid]


# Stopping.


def test_stop_leaves_no_process_and_no_record(folder: Path) -> None:
    server = start(folder)

    assert stop(folder) is True

    assert find_running(folder) is None
    assert not Path(f"/proc/{server.pid}").exists()  # reaped, too
    left = {path.name for path in folder.iterdir()}
    assert left & {"server.json", "server.pid", f"nats-server_{server.pid}.ports"} == set()
    assert stop(folder) is False


def test_stop_where_nothing_ever_ran_does_nothing(tmp_path: Path) -> None:
    assert stop(tmp_path / "nowhere") is False
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_heed_the_request_is_killed(folder: Path) -> None:
    server = start(folder)
    os.kill(server.pid, signal.SIGSTOP)

    stop(folder, 0.1)

    assert servers_of(folder) == []


def test_a_process_that_has_got_the_number_of_a_dead_server_is_left_alone(folder: Path) -> None:
    start(folder)
    record = json.loads((folder / "server.json").read_bytes())
    stop(folder)
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        born = birth(stranger.pid)
        assert born is not None
        (folder / "server.json").write_text(json.dumps({**record, "pid": stranger.pid, "born": born - 1}))

        assert find_running(folder) is None
        assert stop(folder) is False
        assert signal_process(stranger.pid, born - 1, signal.SIGKILL) is False
        end_process(stranger.pid, born - 1, 0.1)

        assert stranger.poll() is None
    finally:
        stranger.communicate(b"\n", timeout=WAIT_SECONDS)
    assert stranger.returncode == 0


# Failing.


def test_a_configured_port_in_use_is_named(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(PortInUseError, match=str(port)) as raised:
            start(folder, Server(port=port))

    assert raised.value.port == port
    assert servers_of(folder) == []


def test_a_missing_binary_says_what_to_do(folder: Path) -> None:
    with pytest.raises(ServerBinaryError, match=r"server\.binary") as raised:
        start(folder, Server(binary="/nowhere/nats-server"))

    assert raised.value.path == "/nowhere/nats-server"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\necho 'nats-server: v2.14.9'\n", r"2\.14\.9 is too old.*2\.15 or newer"),
        ("#!/bin/sh\necho hello\necho you\n", "does not say its version but 'hello':"),
        ("no program\n", "cannot be run"),
    ],
)
def test_a_binary_that_cannot_be_used_says_why(folder: Path, tmp_path: Path, script: str, words: str) -> None:
    fake = tmp_path / "fake-server"
    fake.write_text(script)
    fake.chmod(0o700)

    with pytest.raises(ServerBinaryError, match=words):
        start(folder, Server(binary=str(fake)))


def test_a_binary_may_have_any_name(folder: Path, tmp_path: Path) -> None:
    """The server names the file with its ports after it."""
    other = tmp_path / "nats-server-2"
    other.symlink_to(binary())

    server = start(folder, Server(binary=str(other)))
    stop(folder)

    assert server.started_by_us
    assert list(folder.glob("*.ports")) == []


def test_a_server_that_ends_at_once_is_quoted(folder: Path, tmp_path: Path) -> None:
    settings = fake_server(tmp_path, "echo cannot go on >&2", "exit 3")

    with pytest.raises(ServerStartError, match="cannot go on") as raised:
        start(folder, settings)

    assert raised.value.log == "cannot go on"
    assert find_running(folder) is None


def test_a_server_whose_disk_is_full_says_so(folder: Path, tmp_path: Path) -> None:
    settings = fake_server(tmp_path, "echo write data: no space left on device >&2", "seq 10", "exit 1")

    with pytest.raises(DiskFullError):
        start(folder, settings)


def test_a_server_that_is_never_ready_is_ended(folder: Path, tmp_path: Path) -> None:
    settings = fake_server(tmp_path, f"echo $$ > {tmp_path}/pid", "seq 10", "exec sleep 60")

    with pytest.raises(
        ServerStartError, match=r"not ready within 0\.5 s; raise server\.start_seconds; log: "
    ) as raised:
        start(folder, settings)

    assert f"log: {folder}/server.log" in raised.value.reason
    assert raised.value.log.splitlines() == ["6", "7", "8", "9", "10"]
    assert not (folder / "server.json").exists()
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_damaged_key_is_named_and_not_quoted(folder: Path) -> None:
    start(folder)
    stop(folder)
    (folder / "credentials" / "coder.nk").write_text("SECRETBUTBROKEN")

    with pytest.raises(ServerError, match=r"coder\.nk") as raised:
        start(folder)

    assert "SECRETBUTBROKEN" not in str(raised.value)


def test_credentials_before_the_first_start_say_so(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="made when the embedded server starts"):
        credentials(tmp_path, "coder")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Disks of a chosen size."""
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        place = tmp_path / f"disk-{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(place)]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            reason = f"a small disk is needed, and mount says: {tried.stderr.strip()} (run the tests as root)"
            pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        stop(place / "server")
        subprocess.run(["umount", str(place)], check=True)


def test_a_disk_with_hardly_any_room_is_named(small_disk: Callable[[str], Path]) -> None:
    place = small_disk("64k")

    with pytest.raises(DiskFullError, match="no space left") as raised:
        start(place / "server")

    assert raised.value.folder == str(place / "server")
    assert servers_of(place / "server") == []


def test_a_disk_without_any_room_is_named(small_disk: Callable[[str], Path]) -> None:
    place = small_disk("64k")
    with pytest.raises(OSError, match="No space left"):
        (place / "ballast").write_bytes(bytes(128 * 1024))

    with pytest.raises(DiskFullError):
        start(place / "server")


async def test_a_disk_that_fills_up_refuses_writes_and_goes_on_when_there_is_room(
    small_disk: Callable[[str], Path],
) -> None:
    server = start(small_disk("16m") / "server")
    control, events = SUBJECTS.control(), SUBJECTS.stream("EVENTS")

    async with connected(server) as broker:
        await apply_topology(broker, plan_topology(SUBJECTS))
        with pytest.raises(StorageFullError):
            await fill(broker, 100)
        await broker.purge(events, SUBJECTS.every("event"))
        after = await broker.publish(control, b"resume")

    assert after.sequence == 1
    assert find_running(server.folder) is not None
