"""What a process must not have when it forks: a thread, or a connection or loop that parent and child would share."""

import os
import threading
from pathlib import Path

SHARED = ("socket:", "anon_inode:[eventpoll]", "anon_inode:[io_uring]")
"""What the machine calls them among a process's open files."""


def connections() -> frozenset[tuple[str, str]]:
    """The connections and loops that are open now, each with its descriptor."""
    links = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]  # not the one that we look with
    return frozenset((each.name, name) for each in links if (name := str(each.readlink())).startswith(SHARED))


def unfit_for_fork(before: frozenset[tuple[str, str]]) -> str:
    """What was begun since those connections were all there were, and would not survive a fork; empty if nothing."""
    if names := _threads():
        return f"started a thread ({', '.join(names)})"
    if opened := sorted(name for _, name in connections() - before):
        return f"opened a connection or a loop ({', '.join(opened)})"
    return ""


def _threads() -> list[str]:
    """All but the first, whoever has started them; Python knows the names of its own."""
    known = {thread.native_id: thread.name for thread in threading.enumerate()}
    others = [int(each.name) for each in Path("/proc/self/task").iterdir() if int(each.name) != os.getpid()]
    return sorted(known.get(number, "a native one") for number in others)
