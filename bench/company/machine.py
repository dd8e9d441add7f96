"""What the machine says of processes: who belongs to whom, and what they use up."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

KIB = 1024
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PRIVATE = re.compile(r"^Private_(?:Clean|Dirty):\s+(\d+) kB$", re.MULTILINE)


def family(pid: int) -> set[int]:
    """A process and all that descend from it."""
    found, unseen = set(), {pid}
    while unseen:
        parent = unseen.pop()
        found.add(parent)
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            unseen |= set(map(int, children.read_text().split())) - found
    return found


def processor_seconds(pids: Iterable[int]) -> float:
    """What processes have used up of the processors, and those of their children that have ended."""
    return sum(_ticks(pid) for pid in pids) / TICKS_PER_SECOND


def private_bytes(pid: int) -> int:
    """The memory that a process shares with no other."""
    return KIB * sum(map(int, _PRIVATE.findall(Path(f"/proc/{pid}/smaps_rollup").read_text())))


def _ticks(pid: int) -> int:
    # The name in parentheses may hold anything, so the fields are counted from its end.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))
