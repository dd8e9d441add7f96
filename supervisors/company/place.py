"""Where a supervisor is at home on its machine: its folder, and the two locks that say who is left there.

`supervisor.lock` is the supervisor's alone and ends with it. `actors.lock` is held by every process that it has started
as well, so whoever comes next can wait until nobody of the last company is left, and find those who do not leave. What
actors have started in their turn does not hold it; it is found by the mark that it has inherited.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bus.server.files import POLL_SECONDS, make_private_folder, open_lock, telling_why, try_lock, write_private
from bus.server.process import birth, end_process, is_alive
from bus.settings import Loaded, make_state_folder, state_folder
from supervisors.core.watch import Counters
from supervisors.errors import AlreadyRunningError
from supervisors.processes.kin import is_marked

SUPERVISOR_LOCK = "supervisor.lock"
ACTORS_LOCK = "actors.lock"
RECORD = "supervisor.json"
COUNTERS = "counters.json"
LOGS = "logs"

KILL_SECONDS = 5.0


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Who the supervisor is; `born` tells its process from a later one with the same number."""

    pid: int
    born: int
    started_at: float


class Place(msgspec.Struct, frozen=True):
    """The supervisor's folder in the project's state folder."""

    folder: Path

    @property
    def logs(self) -> Path:
        """Where actors print to, a file for each name."""
        return self.folder.parent / LOGS

    # Who is there.

    def claim(self) -> int:
        """Be the supervisor of this machine; AlreadyRunningError if there is one. The lock ends with the process."""
        with telling_why(self.folder):
            make_private_folder(self.folder)
            make_private_folder(self.logs)
            lock = open_lock(self.folder / SUPERVISOR_LOCK)
        if not try_lock(lock):
            os.close(lock)
            raise AlreadyRunningError(self._pid_of_record())
        started = Record(pid=os.getpid(), born=birth(os.getpid()) or 0, started_at=time.time())
        write_private(self.folder / RECORD, msgspec.json.encode(started))
        return lock

    def supervisor(self) -> Record | None:
        """The supervisor that runs here now."""
        record = self._record()
        return record if record is not None and is_alive(record.pid, record.born) and self._is_claimed() else None

    async def wait_for_orphans(self, lock: int, seconds: float) -> None:
        """Take the actors' lock once nobody of an earlier company is left; who does not leave in time is killed."""
        deadline = time.monotonic() + seconds
        while not try_lock(lock):
            if time.monotonic() > deadline:
                await asyncio.to_thread(self.end_orphans)
                deadline = time.monotonic() + KILL_SECONDS
            await asyncio.sleep(POLL_SECONDS)
        await asyncio.to_thread(self.end_orphans)  # what they have started, and left behind

    def open_actors_lock(self) -> int:
        """A descriptor for it, to be handed on to whoever is started."""
        return open_lock(self.folder / ACTORS_LOCK)

    def end_orphans(self) -> list[int]:
        """Kill whoever an earlier company has left behind; returns their process ids."""
        ended: set[int] = set()
        deadline = time.monotonic() + KILL_SECONDS
        while (found := orphans(self.folder)) and time.monotonic() < deadline:  # they may have started more meanwhile
            for pid in found:
                end_process(pid, birth(pid) or 0, 0.0)
            ended |= set(found)
        return sorted(ended)

    # What is to be remembered.

    def read_counters(self) -> dict[str, Counters]:
        """What the last supervisor had counted."""
        try:
            return msgspec.json.decode((self.folder / COUNTERS).read_bytes(), type=dict[str, Counters])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}

    def write_counters(self, counters: Mapping[str, Counters]) -> None:
        """Keep them for the next one."""
        write_private(self.folder / COUNTERS, msgspec.json.encode(counters))

    def forget_counters(self) -> None:
        """The company was closed by a person: the next one begins to count anew."""
        (self.folder / COUNTERS).unlink(missing_ok=True)

    def _record(self) -> Record | None:
        try:
            return msgspec.json.decode((self.folder / RECORD).read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError):
            return None

    def _pid_of_record(self) -> int:
        record = self._record()
        return record.pid if record else 0

    def _is_claimed(self) -> bool:
        try:
            lock = os.open(self.folder / SUPERVISOR_LOCK, os.O_RDWR)
        except OSError:
            return False
        try:
            return not try_lock(lock)
        finally:
            os.close(lock)


def find_place(loaded: Loaded, environ: Mapping[str, str]) -> Place:
    """The supervisor's place for a project on this machine; its state folder is made if it is not there."""
    settings = loaded.settings
    folder = state_folder(settings.project, loaded.root, settings.state_folder, environ)
    return Place(make_state_folder(folder, loaded.root) / "supervisor")


def orphans(folder: Path) -> list[int]:
    """Whoever holds the actors' lock of a supervisor's folder or has its mark, but for the supervisor and ourselves."""
    lock = str((folder / ACTORS_LOCK).resolve())
    record = Place(folder).supervisor()
    spared = {os.getpid(), record.pid if record else 0}
    return [pid for pid in _pids() if pid not in spared and (is_marked(pid, lock) or lock in _open_files(pid))]


def _pids() -> list[int]:
    return sorted(int(path.name) for path in Path("/proc").glob("[0-9]*"))


def _open_files(pid: int) -> set[str]:
    found = set()
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            found.add(str(descriptor.readlink()))
    except OSError:
        return found  # it has ended while we looked, or is not ours to look at
    return found
