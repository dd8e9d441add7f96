"""The embedded NATS server: one per project folder, for its owner alone, and it outlives whoever started it."""

from bus.server.identity import credentials
from bus.server.lifecycle import find_running, start_or_adopt, stop
from bus.server.record import RunningServer

__all__ = ["RunningServer", "credentials", "find_running", "start_or_adopt", "stop"]
