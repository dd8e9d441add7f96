"""Who belongs to whom: the children of this process, and all that was ever started for a company.

Whatever an actor starts inherits the mark that its zygote was started with, whoever its parent has become since.
"""

import ctypes
import os
from contextlib import suppress
from pathlib import Path

MARK = "ACTORS_OF_CALLBOARD"
"""The variable that every process of a company has: it names the company's lock of its actors."""

ZYGOTE = "(zygote)"
"""What the machine calls a zygote, as `ps` shows it; no actor can be called so."""

NAME_LENGTH_MAX = 15

PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Have what our descendants leave behind become our children, however well it has hidden from them."""
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def children() -> set[int]:
    """Our children, those among them that have ended and wait for somebody to take their exit status."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended just now
            found.update(map(int, path.read_text().split()))
    return found


def company_of(lock: int) -> str:
    """What a company is known by: the file of its actors' lock."""
    return str(Path(f"/proc/self/fd/{lock}").readlink())


def is_marked(pid: int, company: str) -> bool:
    """Whether a process runs that was started for a company. Who has ended has no environment any more."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False  # it is gone, or another user's
    return os.fsencode(f"{MARK}={company}") in environ.split(b"\0")


def marked(company: str) -> list[int]:
    """Everybody who was started for a company and runs, but for ourselves."""
    pids = sorted(int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if pid != os.getpid() and is_marked(pid, company)]


def call_ourselves(name: str) -> None:
    """Have the machine, and whoever looks at its processes, call us so."""
    Path("/proc/self/comm").write_text(name[:NAME_LENGTH_MAX])


def is_zygote(pid: int) -> bool:
    """Whether a process calls itself one."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == ZYGOTE
    except OSError:
        return False
