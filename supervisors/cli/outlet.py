"""The outlet: what a supervisor says of itself is written in a thread, so that it never waits for who reads it."""

import os
import select
import threading
from collections import deque

UNREAD_MAX = 256
"""Of more texts that nobody has read yet the oldest is lost: whoever reads on wants to know how it is now."""

FAREWELL_SECONDS = 2.0
"""How long somebody may take to read the last of it."""

THREAD = "outlet"


class Outlet:
    """A way out, to a descriptor or to nowhere. Nothing here raises anything, and only `close` waits."""

    def __init__(self, descriptor: int | None, *, closes: bool = False) -> None:
        self._descriptor = descriptor
        self._closes = closes
        self._unread: deque[bytes] = deque(maxlen=UNREAD_MAX)
        self._changed = threading.Condition()
        self._is_over = descriptor is None
        self._is_lost = False
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Have it written when its turn comes; after the end it is not."""
        with self._changed:
            if not self._is_over:
                self._unread.append(data)
                self._changed.notify()

    def end(self) -> None:
        """Nothing more will come."""
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def close(self) -> None:
        """Wait until all is written, but not for ever; whatever cannot be, and is said later on, goes nowhere."""
        self.end()
        self._thread.join(FAREWELL_SECONDS)
        if self._descriptor is not None and not self._closes and (self._is_lost or self._thread.is_alive()):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._descriptor)
            os.close(nowhere)

    def _run(self) -> None:
        try:
            while (data := self._next()) is not None:
                self._write(data)
        except OSError:
            self._is_lost = True
            self.end()
        if self._closes and self._descriptor is not None:
            os.close(self._descriptor)

    def _next(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._unread or self._is_over)
            return self._unread.popleft() if self._unread else None

    def _write(self, data: bytes) -> None:
        assert self._descriptor is not None
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # somebody else who has it does not want to wait
                select.select([], [self._descriptor], [])
