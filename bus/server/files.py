"""Files of the server's folder: for their owner alone, replaced whole, and with one process at a time at work."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bus.errors import DiskFullError, ServerError

POLL_SECONDS = 0.005
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def telling_why(folder: Path) -> Iterator[None]:
    """Turn what the file system says into DiskFullError or ServerError."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFullError(str(folder)) from error
        raise ServerError(f"{error.filename or folder}: {error.strerror or error}") from error


def make_private_folder(folder: Path) -> None:
    """Create `folder` with mode 0700; an existing one is closed to others."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o777 != 0o700:
        folder.chmod(0o700)


def write_private(path: Path, data: bytes) -> None:
    """Replace `path` with `data`, mode 0600; after a crash either the old or the new is there, whole."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[int]:
    """Hold the lock at `path` alone and yield its descriptor; ServerError if somebody else keeps it for so long."""
    descriptor = open_lock(path)
    try:
        take_lock(descriptor, path, seconds)
        yield descriptor
    finally:
        os.close(descriptor)


def open_lock(path: Path) -> int:
    """A descriptor on which a lock can be taken.

    The lock belongs to the open file: a child that inherits the descriptor holds it until it ends, however it ends.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def take_lock(descriptor: int, path: Path, seconds: float, *, shared: bool = False) -> None:
    """Take a lock, alone or among others who share it; ServerError if somebody else keeps it for so long."""
    deadline = time.monotonic() + seconds
    while not try_lock(descriptor, shared=shared):
        if time.monotonic() > deadline:
            raise ServerError(f"another process has held {path} for {seconds:g} s")
        time.sleep(POLL_SECONDS)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take a lock, or change the one that we have, if that can be done at once."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
