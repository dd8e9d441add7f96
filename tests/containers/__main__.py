"""`python -m tests.containers [PYTEST-OPTION …]`: find or start an engine, build the image, run the tests.

Exits 0 without running a test only where there can be no container engine, and says why on stderr.
"""

import signal
import subprocess
import sys
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tests.containers.engine import Engine, running_engine
from tests.containers.errors import EngineFailureError, NoEngineError
from tests.containers.image import IMAGE_VARIABLE, nats_image
from tests.containers.programs import say

TESTS = Path(__file__).parent
INTERRUPTED_SECONDS = 60.0
# nats-py drops a connection that ends before the server's greeting without closing it, and a published port
# is open a moment longer than the server behind it: the garbage collector then blames whichever test is running.
LIBRARY_WARNING = "ignore:unclosed <StreamWriter:ResourceWarning"


class Exit(IntEnum):
    """Besides these, pytest's own codes (5, no test collected, among them)."""

    OK = 0  # All passed, or there can be no engine here.
    FAILED = 1  # An engine is there and something failed.
    INTERRUPTED = 130  # By a signal; everything that was started is gone.


def main(arguments: list[str]) -> int:
    on_signals(interrupt)
    try:
        with running_engine() as engine:
            return run_pytest(engine, nats_image(engine), arguments)
    except NoEngineError as error:
        say(f"No container engine, so the container tests are left out: {error.reason}.")
        return Exit.OK
    except (EngineFailureError, subprocess.TimeoutExpired) as error:
        say(f"The container engine failed: {error}")
        return Exit.FAILED
    except KeyboardInterrupt:
        say("Interrupted.")
        return Exit.INTERRUPTED


def run_pytest(engine: Engine, image: str, arguments: list[str]) -> int:
    """pytest in a process of its own, so that whatever becomes of it, the engine is stopped afterwards."""
    command = [sys.executable, "-m", "pytest", "-W", LIBRARY_WARNING, *arguments, str(TESTS)]
    environment = {**engine.environment(), IMAGE_VARIABLE: image}
    # Its own session: an interrupt reaches it once, from here, and its fixtures clean up after themselves.
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=INTERRUPTED_SECONDS)
        raise
    finally:
        on_signals(signal.SIG_IGN)
        process.kill()  # Does nothing to a process that has ended.
        process.wait()


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Only the first time: after that everything is being cleaned up, each step within its own limit."""
    on_signals(signal.SIG_IGN)
    raise KeyboardInterrupt


def on_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
