"""LangGraph with its SQLite checkpointer: a session is a thread, and a step is a node. `langgraph_worker.py PATH`.

The checkpointer keeps its file in WAL mode; a checkpoint is stored before the next step begins (durability "sync").
Graphs are invoked by threads: with coroutines LangGraph is slower, alone and with 64 at once.
"""

import sys
from pathlib import Path
from typing import TypedDict
from uuid import uuid4

from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]  # in the peers' environment alone
from langgraph.graph import END, START, StateGraph  # type: ignore[import-not-found]  # likewise
from worker import Race, make_sqlite, serve  # type: ignore[import-not-found]  # beside this script

races: dict[str, Race] = {}


class Walk(TypedDict):
    """What a thread remembers."""

    race: str
    step: int
    steps: int


def tread(walk: Walk) -> dict[str, int]:
    """Do nothing; the first step waits for the others."""
    if not walk["step"]:
        races[walk["race"]].begin()
    return {"step": walk["step"] + 1}


def where_next(walk: Walk) -> str:
    """Again, or to the end."""
    return "tread" if walk["step"] < walk["steps"] else str(END)


def main() -> None:
    """Open the file and serve."""
    path = Path(sys.argv[1])
    make_sqlite(path, "WAL")
    builder = StateGraph(Walk)
    builder.add_node("tread", tread)
    builder.add_edge(START, "tread")
    builder.add_conditional_edges("tread", where_next, ["tread", END])
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = builder.compile(checkpointer=saver)

        def run(race: Race, steps: int) -> None:
            name = uuid4().hex
            races[name] = race
            config = {"configurable": {"thread_id": name}, "recursion_limit": steps + 10}
            graph.invoke({"race": name, "step": 0, "steps": steps}, config, durability="sync")
            race.end()

        serve(run)


if __name__ == "__main__":
    main()
