"""DBOS: a session is a workflow, and a step is a step of it. `dbos_worker.py DATABASE_URL [JOURNAL_MODE]`.

Workflows are plain functions in threads: with coroutines DBOS is slower, alone and with 64 at once.
"""

import sys
from pathlib import Path
from uuid import uuid4

from dbos import DBOS, SetWorkflowID  # type: ignore[import-not-found]  # in the environment of the peers alone
from worker import Race, make_sqlite, serve  # type: ignore[import-not-found]  # beside this script

races: dict[str, Race] = {}
"""A workflow's arguments are stored: it finds its race by its id."""


def tread(step: int) -> int:
    """Do nothing."""
    return step


durable_tread = DBOS.step()(tread)


def walk(steps: int) -> None:
    """One session."""
    race = races[DBOS.workflow_id]
    race.begin()
    for step in range(steps):
        durable_tread(step)
    race.end()


durable_walk = DBOS.workflow()(walk)


def run(race: Race, steps: int) -> None:
    """Play one session to its end."""
    identifier = uuid4().hex
    races[identifier] = race
    with SetWorkflowID(identifier):
        durable_walk(steps)


def main() -> None:
    """Open the database and serve."""
    url, *journal_modes = sys.argv[1:]
    for mode in journal_modes:
        make_sqlite(Path(url.removeprefix("sqlite:///")), mode)
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
    DBOS.launch()
    serve(run)
    DBOS.destroy()


if __name__ == "__main__":
    main()
