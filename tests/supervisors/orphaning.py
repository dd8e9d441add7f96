"""A supervisor that starts actors and waits to be killed. Prints the numbers of zygote, spare and actors."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from supervisors.processes.nursery import Soil, ZygoteNursery
from supervisors.processes.orders import Order


async def main() -> None:
    """Start them, and wait."""
    url, project, folder, kind, count, orphan_seconds = sys.argv[1:]
    lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT)
    processes: Any = kind
    nursery = ZygoteNursery(Soil(folder=folder, lock=lock, orphan_seconds=float(orphan_seconds), processes=processes))
    orders = [
        Order(
            machine="coder",
            actor=f"coder-{number}",
            part="tests.actors.command_parts:CODER",
            log=f"{folder}/coder-{number}.log",
            folder=folder,
            project=project,
            url=url,
        )
        for number in range(1, int(count) + 1)
    ]
    running = [await nursery.start(order) for order in orders]
    zygote = _parent_of(running[0].pid)
    while len(nursery.pids) < 2:
        await asyncio.sleep(0.01)
    (spare,) = nursery.pids - {zygote}
    sys.stdout.write(" ".join(map(str, (zygote, spare, *(each.pid for each in running)))) + "\n")
    sys.stdout.flush()
    await asyncio.gather(*[each.wait() for each in running])


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    asyncio.run(main())
