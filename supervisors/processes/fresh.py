"""A fresh interpreter instead of a fork: slower to start and larger, but with nothing that could cross a fork.

For modules that start threads when they are imported. The zygote starts it, and reaps and reports as ever.
"""

import os
import sys
from typing import NoReturn

import msgspec

from supervisors.processes.child import be_actor, look_in, print_to
from supervisors.processes.kin import call_ourselves
from supervisors.processes.orders import Order


def become_fresh(order: Order, tether: int, lock: int) -> NoReturn:
    """Be the actor in an interpreter of its own, in this process."""
    print_to(order.log)
    for kept in (tether, lock):
        os.set_inheritable(kept, True)
    arguments = (str(tether), str(lock), msgspec.json.encode(order).decode())
    os.execv(sys.executable, [sys.executable, "-m", "supervisors.processes.fresh", *arguments])  # noqa: S606 -- ourselves


def main() -> None:
    """Entry point: `python -m supervisors.processes.fresh TETHER LOCK ORDER`."""
    tether, lock, order = int(sys.argv[1]), int(sys.argv[2]), msgspec.json.decode(sys.argv[3], type=Order)
    os.set_inheritable(lock, False)  # what the actor starts does not hold it
    call_ourselves(order.actor)
    look_in(order.folder)
    sys.exit(be_actor(order, tether))


if __name__ == "__main__":
    main()
