"""A supervisor that starts actors and waits to be killed. Prints the numbers of the zygote and of the actors."""

import asyncio
import os
import sys
from pathlib import Path

from supervisors.processes.nursery import Soil, ZygoteNursery
from supervisors.processes.orders import Order


async def main() -> None:
    """Start them, and wait."""
    url, project, folder, count, orphan_seconds = sys.argv[1:]
    lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT)
    nursery = ZygoteNursery(Soil(folder=folder, lock=lock, orphan_seconds=float(orphan_seconds)))
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
    sys.stdout.write(" ".join([_parent_of(running[0].pid), *(str(each.pid) for each in running)]) + "\n")
    sys.stdout.flush()
    await asyncio.gather(*[each.wait() for each in running])


def _parent_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]


if __name__ == "__main__":
    asyncio.run(main())
