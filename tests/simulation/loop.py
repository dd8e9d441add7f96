"""An event loop with a virtual clock, and processes on it that can be killed, stopped and woken.

Time moves only when nothing is left to do, to the next timer: a day takes as long as what happens in it. Whatever is
scheduled belongs to the process in whose context it was: a killed process never runs again, not even to clean up, and
what a stopped one had to do waits until it is woken. What belongs to no process is the world: broker, person, health.
"""

import asyncio
import contextvars
import gc
import heapq
import signal
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

CANCELLED_TIMERS_MAX = 1000
CLEAN_UPS_MAX = 20


class Process:
    """One incarnation of something that can die."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_stopped = False
        self.held: list[asyncio.Handle] = []


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class NothingLeftError(Exception):
    """Everybody waits and no timer is set: in the real world this would be a hang."""


class NeverRestsError(KeyboardInterrupt):
    """Somebody runs in circles and waits for nothing. An interrupt, because asyncio would let a task keep any other."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs as fast as it can, always in the same order."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._cancelled_timers = 0
        self.tasks: list[asyncio.Task[Any]] = []
        """All that ever were, so that none is collected, and so runs its clean-up, while the simulation runs."""
        self.set_task_factory(_make_task)

    def time(self) -> float:
        """Seconds since the beginning."""
        return self._now

    # What asyncio's own loops do with a selector.

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]
        if not ready:
            self._to_next_timer(ready)
        for _ in range(len(ready)):
            handle: Any = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(PROCESS)
            if process is None or (process.is_alive and not process.is_stopped):
                handle._run()
            elif process.is_alive:
                process.held.append(handle)

    def _to_next_timer(self, ready: Any) -> None:
        timers: list[Any] = self._scheduled  # type: ignore[attr-defined]
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False
        if not timers:
            raise NothingLeftError
        self._now = max(self._now, timers[0]._when)
        while timers and timers[0]._when <= self._now:
            handle = heapq.heappop(timers)
            handle._scheduled = False
            ready.append(handle)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > CANCELLED_TIMERS_MAX:
            self._cancelled_timers = 0
            kept = [each for each in self._scheduled if not each._cancelled]  # type: ignore[attr-defined]
            heapq.heapify(kept)
            self._scheduled[:] = kept  # type: ignore[attr-defined]

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""

    # Processes.

    def spawn(self, process: Process, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Start the main task of a process."""
        context = contextvars.Context()
        context.run(PROCESS.set, process)
        return self.create_task(work, context=context)

    def wake(self, process: Process) -> None:
        """SIGCONT."""
        process.is_stopped = False
        held, process.held = process.held, []
        self._ready.extend(held)  # type: ignore[attr-defined]

    def in_world(self, delay_seconds: float, call: Callable[..., Any], *arguments: Any) -> asyncio.TimerHandle:
        """Have something happen later, whatever becomes of the process that asks for it."""
        return self.call_later(delay_seconds, call, *arguments, context=contextvars.Context())


def _make_task(loop: Any, work: Any, **options: Any) -> Any:
    task: Any = asyncio.Task(work, loop=loop, **options)
    task._log_destroy_pending = False
    loop.tasks.append(task)
    return task


def run_virtual(main: Callable[[VirtualLoop], Coroutine[Any, Any, Any]]) -> Any:
    """Run `main` on a fresh loop; what is still pending at its end is dropped, as if all had been killed."""
    loop = VirtualLoop()
    # A collection closes generators at moments that depend on everything that was ever allocated.
    gc.disable()
    try:
        return loop.run_until_complete(main(loop))
    finally:
        with warnings.catch_warnings():
            # What had not begun yet when it was killed was never awaited.
            warnings.simplefilter("ignore", RuntimeWarning)
            _drop(loop)
        gc.enable()


def _drop(loop: VirtualLoop) -> None:
    loop.set_exception_handler(lambda _loop, _context: None)
    asyncio._set_running_loop(loop)  # clean-up that asks for a loop must not be given a fresh one
    for task in loop.tasks:
        _close(task.get_coro())
    asyncio._set_running_loop(None)
    loop.tasks.clear()
    loop._ready.clear()  # type: ignore[attr-defined]
    loop._scheduled.clear()  # type: ignore[attr-defined]
    loop.close()


def _close(work: Any) -> None:
    """Close a coroutine that was killed: its clean-up runs outside of any loop, and fails somehow, again and again."""
    for _ in range(CLEAN_UPS_MAX):
        with suppress(Exception, GeneratorExit):
            work.close()
            break


@contextmanager
def limited(processor_seconds: float) -> Iterator[None]:
    """Raise NeverRestsError, wherever that is, when the code inside has kept the processor busy for so long."""

    def interrupt(*_: Any) -> None:
        raise NeverRestsError

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, processor_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
