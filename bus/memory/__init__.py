"""The broker port in memory: the same contract as JetStream, on the running loop's clock.

A `MemoryServer` is what outlives processes; a `MemoryBroker` is one connection to it. `fence_first` picks the order in
which a server checks the expected sequence and the message id: one node and three replicas differ in it, and the code
above this port must be right on both.
"""

from bus.memory.broker import MemoryBroker
from bus.memory.server import MemoryServer

__all__ = ["MemoryBroker", "MemoryServer"]
