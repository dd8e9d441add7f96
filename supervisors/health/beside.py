"""Probes beside the supervisor's loop: each that somebody has written has a thread, a loop and a connection of its own.

So one that blocks, which no time limit could end, stands in nobody's way: it counts as failed until it has ended.
"""

import asyncio
import inspect
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import structlog

from actors.evidence import reason_of
from bus.bus import Bus
from bus.opening import open_again
from supervisors.errors import ProbeError
from supervisors.health.probes import Probe

log = structlog.get_logger()

CLOSE_SECONDS = 1.0
"""How long a probe's thread may take to end; one that blocks ends with the process."""


@asynccontextmanager
async def beside(probes: Sequence[Probe], bus: Bus) -> AsyncIterator[tuple[Probe, ...]]:
    """The same probes, those that are not ours run in threads of their own while the context is open."""
    runners = {probe.name: _Runner(probe, bus) for probe in probes if not probe.ours}
    try:
        yield tuple(
            Probe(name=probe.name, check=runners[probe.name].check) if probe.name in runners else probe
            for probe in probes
        )
    finally:
        for runner in runners.values():
            await runner.close()


class _Runner:
    """One probe's thread, which is there once it is needed."""

    def __init__(self, probe: Probe, bus: Bus) -> None:
        self._probe = probe
        self._bus = bus
        self._own: Bus | None = None
        self._last: Coroutine[Any, Any, None] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"probe-{probe.name}", daemon=True)

    async def check(self, _: Bus) -> None:
        """Run the probe; ProbeError while its last run, which was given up, has not ended."""
        if not self._thread.is_alive():
            self._thread.start()
        if self._last is not None and inspect.getcoroutinestate(self._last) != inspect.CORO_CLOSED:
            log.error("probe.blocks", service=self._probe.name, at=self._where())
            raise ProbeError(self._probe.name, "its last probe was given up, and has not ended yet: it must not block")
        self._last = self._check()
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._last, self._loop))

    async def close(self) -> None:
        """Let the thread end, if it does."""
        if not self._thread.is_alive():
            self._loop.close()
            return
        asyncio.run_coroutine_threadsafe(self._leave(), self._loop)
        await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)

    # In the thread.

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    async def _check(self) -> None:
        try:
            if self._own is None:
                self._own = await open_again(self._bus)
            await self._probe.check(self._own)
        except (SystemExit, KeyboardInterrupt) as error:
            raise ProbeError(self._probe.name, reason_of(error) or type(error).__name__) from error

    async def _leave(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.wait(others, timeout=CLOSE_SECONDS) if others else None
        if self._own is not None:
            with suppress(Exception):  # it has nothing left to say
                await self._own.close()
        self._loop.stop()

    def _where(self) -> str:
        """Where the thread stands."""
        frames = sys._current_frames()  # noqa: SLF001 -- the only way to see another thread
        frame = frames.get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame, limit=3)) if frame else ""
