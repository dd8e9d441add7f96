"""What all peers have in common: asked for `SESSIONS STEPS` on a line, answer how many seconds the steps took.

Run by an interpreter that has the peer and not this project: imports nothing but the standard library. Sessions begin
their first step together; what it costs to begin and to end them is not counted.
"""

import sqlite3
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

SESSIONS_MAX = 64
FULL = 2
"""What `PRAGMA synchronous` says when each commit is synced to the disk."""


class Race:
    """One measurement: who has begun, and when the last one was through."""

    def __init__(self, sessions: int) -> None:
        self._line = threading.Barrier(sessions)
        self._began: list[float] = []
        self._ended: list[float] = []

    def begin(self) -> None:
        """Wait until all sessions are at their first step."""
        self._line.wait()
        self._began.append(perf_counter())

    def end(self) -> None:
        """All steps of this session are durable."""
        self._ended.append(perf_counter())

    @property
    def seconds(self) -> float:
        """From the first step of all to the last."""
        return max(self._ended) - min(self._began)


Run = Callable[[Race, int], None]
"""Play one session of so many steps; blocks."""


def serve(run: Run) -> None:
    """Answer until nobody asks any more."""
    print("ready", flush=True)
    with ThreadPoolExecutor(SESSIONS_MAX) as threads:
        for line in sys.stdin:
            sessions, steps = map(int, line.split())
            race = Race(sessions)
            for done in [threads.submit(run, race, steps) for _ in range(sessions)]:
                done.result()
            print(race.seconds, flush=True)


def make_sqlite(path: Path, journal_mode: str) -> None:
    """Make a database file in a journal mode, and be sure that commits are synced as long as nobody says otherwise."""
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {journal_mode}")
    assert connection.execute("PRAGMA synchronous").fetchone() == (FULL,)
    connection.close()
