"""A process that says all its secrets in one way: `python -m tests.actors.leaking WAY`."""

import asyncio
import gc
import logging
import sys
import threading
import warnings

import structlog
import uvloop

from actors.logs import configure_logs
from actors.redaction import remember_secrets
from tests.actors.secret_samples import AWKWARD

EVERYTHING = " and ".join(AWKWARD)
log = structlog.get_logger()


class LeakyError(Exception):
    """Says everything, in its text and in its arguments."""

    def __init__(self) -> None:
        super().__init__(EVERYTHING, {"keys": AWKWARD})


class Unspeakable:
    """Has no text, and says everything in the error."""

    def __str__(self) -> str:
        raise LeakyError


def logged() -> None:
    data = EVERYTHING.encode(errors="surrogateescape")
    log.warning("thing.said", text=EVERYTHING, nested={"keys": AWKWARD, EVERYTHING: [data]})


def logged_with_an_error() -> None:
    try:
        unhandled()
    except LeakyError:
        log.exception("thing.failed")


def logged_with_what_cannot_be_printed() -> None:
    log.warning("thing.said", thing=Unspeakable())


def bound() -> None:
    with structlog.contextvars.bound_contextvars(session=EVERYTHING):
        log.warning("thing.said")


def library() -> None:
    logging.getLogger("library.part").warning("sent %s and %r", EVERYTHING, AWKWARD)


def library_with_an_error() -> None:
    try:
        unhandled()
    except LeakyError:
        logging.getLogger("library.part").exception("failed")


def library_with_wrong_arguments() -> None:
    logging.getLogger("library.part").error(f"{EVERYTHING} %d", EVERYTHING)


def warning() -> None:
    warnings.warn(EVERYTHING, stacklevel=1)


def unhandled() -> None:
    raise LeakyError


def unhandled_in_a_thread() -> None:
    thread = threading.Thread(target=unhandled)
    thread.start()
    thread.join()


def unraisable() -> None:
    class Last:
        def __del__(self) -> None:
            raise LeakyError

    Last()


async def _forget() -> None:
    task = asyncio.ensure_future(_fail())
    await asyncio.wait([task])
    del task
    gc.collect()


async def _fail() -> None:
    raise LeakyError


async def _fail_in_callback() -> None:
    asyncio.get_running_loop().call_soon(unhandled)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def never_retrieved() -> None:
    uvloop.run(_forget())


def never_retrieved_without_uvloop() -> None:
    asyncio.run(_forget())


def failed_in_callback() -> None:
    uvloop.run(_fail_in_callback())


WAYS = {
    way.__name__: way
    for way in (
        logged,
        logged_with_an_error,
        logged_with_what_cannot_be_printed,
        bound,
        library,
        library_with_an_error,
        library_with_wrong_arguments,
        warning,
        unhandled,
        unhandled_in_a_thread,
        unraisable,
        never_retrieved,
        never_retrieved_without_uvloop,
        failed_in_callback,
    )
}

if __name__ == "__main__":
    remember_secrets(AWKWARD)
    configure_logs("info", actor="leaky-1")
    WAYS[sys.argv[1]]()
