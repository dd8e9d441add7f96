"""Running a command's asynchronous part so that it always ends in order, however it is told to end.

In order means that its connection is closed and an embedded server that nobody else uses is stopped.
"""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from bus.cli.failures import StoppedError
from bus.cli.output import ReaderGoneError
from bus.exits import Exit

T = TypeVar("T")

_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stoppable() -> Iterator[None]:
    """Make an ending signal a StoppedError wherever it comes, also where a command waits for its standard input."""
    ours = [number for number in _ENDINGS if signal.getsignal(number) is signal.SIG_DFL]  # nohup wants it ignored
    for number in ours:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _stop(_number: int, _frame: object) -> None:
    raise StoppedError(Exit.TERMINATED)


def run(work: Callable[[], Awaitable[T]], *, if_stopped: str = "", endless: bool = False) -> T:
    """Run one asynchronous piece of work; StoppedError if it was told to end, by Ctrl-C or otherwise.

    `if_stopped` is the advice for that case; work that is `endless` ends in no other way.
    """
    stopped = False

    async def main() -> T:
        task = _this_task()

        def stop() -> None:
            nonlocal stopped
            stopped = True
            task.cancel()

        for number in _ENDINGS:
            if signal.getsignal(number) in (signal.SIG_DFL, _stop):
                asyncio.get_running_loop().add_signal_handler(number, stop)
        return await work()

    try:
        return asyncio.run(main())
    except KeyboardInterrupt:
        raise StoppedError(Exit.INTERRUPTED, if_stopped, expected=endless) from None
    except asyncio.CancelledError:
        if stopped:
            raise StoppedError(Exit.TERMINATED, if_stopped, expected=endless) from None
        raise


@asynccontextmanager
async def while_somebody_reads() -> AsyncIterator[None]:
    """End what may wait long for its next line as soon as the reader of our pipe has gone: ReaderGoneError."""
    loop, task, gone = asyncio.get_running_loop(), _this_task(), False

    def leave() -> None:
        nonlocal gone
        gone = True
        loop.remove_reader(output)
        task.cancel()

    output = sys.stdout.fileno()
    is_pipe = stat.S_ISFIFO(os.fstat(output).st_mode)
    if is_pipe:
        # There is never anything to read at this end: the selector wakes only when the other end is closed.
        loop.add_reader(output, leave)
    try:
        yield
    except asyncio.CancelledError:
        if gone and not task.uncancel():
            raise ReaderGoneError from None
        raise
    finally:
        if is_pipe:
            loop.remove_reader(output)


def _this_task() -> "asyncio.Task[object]":
    task = asyncio.current_task()
    assert task is not None
    return task
