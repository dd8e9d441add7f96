"""The tether: the line from an actor's process to its supervisor, a socket that each process has to itself.

By it the process says that it takes events, and then, again and again, that its loop still turns; it needs no broker
for that. Its end says that the supervisor is gone.
"""

import asyncio
import os
import socket
from collections.abc import Callable

PULSE_SECONDS = 1.0

READY = b"ready"
PULSE = b"."
"""What a process says, one word a packet."""


class Tether:
    """The process's end."""

    def __init__(self, descriptor: int, gone: Callable[[], None]) -> None:
        os.set_inheritable(descriptor, False)  # whom an actor starts is not held by its supervisor
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._gone = gone
        self._loop.add_reader(descriptor, self._hear)
        self._beat()

    def ready(self) -> None:
        """The process takes events."""
        self._say(READY)

    def _beat(self) -> None:
        self._say(PULSE)
        self._loop.call_later(PULSE_SECONDS, self._beat)

    def _say(self, word: bytes) -> None:
        try:
            self._socket.send(word)
        except OSError:
            return  # nobody listens: if the supervisor is gone, the line's end says so; if it sleeps, it has enough

    def _hear(self) -> None:
        """A supervisor never says anything: what can be read is the end."""
        self._loop.remove_reader(self._socket.fileno())
        self._gone()
