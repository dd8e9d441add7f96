"""What is written down about a running server, and how a caller sees it."""

from contextlib import suppress
from pathlib import Path

import msgspec

from bus.errors import ForeignFolderError
from bus.server.config import CONFIG, PID, PORT_ANY
from bus.server.files import write_private
from bus.server.process import birth

RECORD = "server.json"
PORT = "port"
PROJECT = "project"


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that answers. `keep`: it should stay when its starter is done."""

    url: str
    pid: int
    started_by_us: bool
    folder: Path
    keep: bool

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What server.json says; `port` is 0 until the server listens."""

    pid: int
    born: int
    port: int = 0
    url: str = ""
    keep: bool = False
    identities: str = ""
    """Digest of the identities.conf that the server has loaded."""

    def running(self, folder: Path, *, started_by_us: bool) -> RunningServer:
        """The record as a caller sees it."""
        return RunningServer(url=self.url, pid=self.pid, started_by_us=started_by_us, folder=folder, keep=self.keep)


def read_record(folder: Path) -> Record | None:
    """The record of the server that was started last and not stopped since."""
    try:
        return msgspec.json.decode((folder / RECORD).read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError):
        return None


def write_record(folder: Path, record: Record) -> None:
    """Replace the record."""
    write_private(folder / RECORD, msgspec.json.encode(record))


def find_unrecorded(folder: Path) -> Record | None:
    """A server of this folder whose starter died before it could write it down, by the pid file of its own."""
    with suppress(OSError, ValueError):
        pid = int((folder / PID).read_text())
        born = birth(pid)
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if born is not None and str(folder / CONFIG).encode() in command:
            return Record(pid=pid, born=born)
    return None


def claim_folder(folder: Path, project: str) -> None:
    """Note whose server lives here; ForeignFolderError if it is another project's, whose actors would be cut off."""
    try:
        owner = (folder / PROJECT).read_text()
    except OSError:
        write_private(folder / PROJECT, project.encode())
        return
    if owner != project:
        raise ForeignFolderError(str(folder), owner, project)


def read_last_port(folder: Path) -> int:
    """The port of the last start, so that clients that wait for the server find it again."""
    try:
        return int((folder / PORT).read_text())
    except (OSError, ValueError):
        return PORT_ANY


def write_last_port(folder: Path, port: int) -> None:
    """Remember the port for the next start."""
    write_private(folder / PORT, str(port).encode())
