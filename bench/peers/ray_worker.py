"""Ray: an actor that Ray starts again however often its process is killed. Asked for one kind of actor on a line,
answer how many seconds it took from kill -9 until the actor has answered a call again. `ray_worker.py FOLDER`.

`bare` imports nothing, `same_imports` what our actors import.
"""

import os
import signal
import sys
from time import perf_counter
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before it is imported: nothing is sent to anybody
import ray  # type: ignore[import-not-found]  # in the environment of the peers alone


class Bare:
    """Does nothing."""

    def pid(self) -> int:
        """Answer a call."""
        return os.getpid()


class SameImports(Bare):
    """Has imported what an agent needs."""

    def __init__(self) -> None:
        import anthropic  # noqa: F401, PLC0415 -- in the actor's own process
        import mcp  # type: ignore[import-not-found]  # noqa: F401, PLC0415 -- likewise; the peers' environment has it


def restart_seconds(actor: Any) -> float:
    """Kill its process, and call it until another one answers."""
    pid = ray.get(actor.pid.remote())
    began = perf_counter()
    os.kill(pid, signal.SIGKILL)
    while True:
        try:
            if ray.get(actor.pid.remote()) != pid:
                return perf_counter() - began
        except ray.exceptions.RayActorError:
            continue  # it has not been started again yet


def main() -> None:
    """Start a cluster of this machine alone, and serve."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray talks on standard output, which is for the answers here
    ray.init(
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _node_ip_address="127.0.0.1",
        _temp_dir=sys.argv[1],
    )
    kinds = {"bare": Bare, "same_imports": SameImports}
    actors = {name: ray.remote(kind).options(max_restarts=-1).remote() for name, kind in kinds.items()}
    for actor in actors.values():
        ray.get(actor.pid.remote())
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        print(restart_seconds(actors[line.strip()]), file=answers, flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
