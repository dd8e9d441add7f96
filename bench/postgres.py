"""A PostgreSQL of our own, where its programs are installed: fresh, synced at each commit, ended by its id."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEBIAN = "/usr/lib/postgresql/*/bin"
ACCOUNT = "postgres"
START_SECONDS = 20.0
STOP_SECONDS = 20.0


@contextmanager
def postgres_server() -> Iterator[str | None]:
    """A server on a socket in a temporary folder, as the URL of a database; None where there is none to be had."""
    programs, account = _programs(), _account()
    if programs is None or account is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="callboard-postgres-"))
    os.chown(folder, account.pw_uid, account.pw_gid)
    try:
        _run(account, programs / "initdb", "--pgdata", folder / "data", "--auth", "trust", "--username", ACCOUNT)
        with _started(programs, account, folder):
            _run(account, programs / "createdb", "--host", folder, "--username", ACCOUNT, "bench")
            yield f"postgresql://{ACCOUNT}@/bench?host={folder}"
    finally:
        shutil.rmtree(folder)


def _programs() -> Path | None:
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    return max((path.parent for path in Path("/").glob(f"{DEBIAN}/initdb".lstrip("/"))), default=None)


def _account() -> pwd.struct_passwd | None:
    """Whose the server is: ours, or that of PostgreSQL's packages, because it refuses to run as root."""
    if os.getuid():
        return pwd.getpwuid(os.getuid())
    try:
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        return None


@contextmanager
def _started(programs: Path, account: pwd.struct_passwd, folder: Path) -> Iterator[None]:
    command: list[str | Path] = [programs / "postgres", "-D", folder / "data", "-k", folder, "-c", "listen_addresses="]
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, user=_user(account), group=_group(account))
    try:
        _wait_until_ready(programs, process, folder)
        yield
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


def _wait_until_ready(programs: Path, process: "subprocess.Popen[bytes]", folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if subprocess.run([programs / "pg_isready", "--quiet", "--host", folder], check=False).returncode == 0:
            return
        time.sleep(0.02)  # polls to a deadline
    raise RuntimeError(f"postgres did not start: {(folder / 'server.log').read_text()[-2000:]}")


def _run(account: pwd.struct_passwd, *command: str | Path) -> None:
    user, group = _user(account), _group(account)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", user=user, group=group)


def _user(account: pwd.struct_passwd) -> int | None:
    return None if os.getuid() else account.pw_uid


def _group(account: pwd.struct_passwd) -> int | None:
    return None if os.getuid() else account.pw_gid
