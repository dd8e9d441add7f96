"""Fresh interpreters instead of forks: slower to start and larger, but with nothing that could cross a fork.

For systems where forking is not safe, and for modules that start threads when they are imported.
"""

import asyncio
import os
import signal
import subprocess
import sys

import msgspec

from supervisors.errors import StartError
from supervisors.processes.child import be_actor, look_in
from supervisors.processes.nursery import Soil, become_subreaper
from supervisors.processes.orders import Order
from supervisors.processes.running import Running, tethers


class FreshNursery:
    """Starts each actor in an interpreter of its own."""

    def __init__(self, soil: Soil) -> None:
        self._soil = soil
        self._children: list[Running] = []
        become_subreaper()

    async def start(self, order: Order) -> Running:
        """Start an interpreter; it may still be importing when this returns."""
        ours, its = tethers()
        arguments = [str(its.fileno()), msgspec.json.encode(order).decode()]
        with its:
            try:
                process = subprocess.Popen(  # noqa: ASYNC220, S603 -- takes a millisecond; it is ourselves
                    [sys.executable, "-m", "supervisors.processes.fresh", *arguments],
                    pass_fds=(its.fileno(), self._soil.lock),
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is the supervisor's, who then tells everybody in order
                )
            except OSError as error:
                ours.close()
                raise StartError(order.actor, str(error)) from error
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError as error:
            ours.close()
            process.kill()
            process.wait()
            raise StartError(order.actor, f"{error.strerror}: raise the limit of open files") from error
        running = Running(order, process.pid, pidfd, ours)
        process.returncode = 0  # Popen must not reap it: we do, and learn what it has used up
        running.adopt()
        self._children = [*(each for each in self._children if not each.is_gone), running]
        return running

    async def close(self) -> None:
        """Let go of whoever is left, and wait for them; who does not leave is killed."""
        for running in self._children:
            running.let_go()
        for running in self._children:
            try:
                async with asyncio.timeout(self._soil.orphan_seconds):
                    await running.wait()
            except TimeoutError:
                running.signal(signal.SIGKILL)
                await running.wait()

    @property
    def pids(self) -> frozenset[int]:
        """It has no processes of its own."""
        return frozenset()


def main() -> None:
    """Entry point: `python -m supervisors.processes.fresh TETHER ORDER`."""
    order = msgspec.json.decode(sys.argv[2], type=Order)
    look_in(order.folder)
    sys.exit(be_actor(order, int(sys.argv[1])))


if __name__ == "__main__":
    main()
