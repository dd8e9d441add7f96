"""A supervisor that starts one actor and waits to be killed. Prints the numbers of the zygote and of the actor."""

import asyncio
import os
import sys
from pathlib import Path

from supervisors.processes.nursery import Soil, ZygoteNursery
from supervisors.processes.orders import Order


async def main() -> None:
    """Start one, and wait."""
    url, project, folder = sys.argv[1:]
    order = Order(
        machine="coder",
        actor="coder-1",
        part="tests.actors.command_parts:CODER",
        log=f"{folder}/coder-1.log",
        folder=folder,
        project=project,
        url=url,
    )
    lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT)
    running = await ZygoteNursery(Soil(folder=folder, lock=lock, orphan_seconds=15.0)).start(order)
    sys.stdout.write(f"{_parent_of(running.pid)} {running.pid}\n")
    sys.stdout.flush()
    await running.wait()


def _parent_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]


if __name__ == "__main__":
    asyncio.run(main())
