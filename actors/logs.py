"""How actors log: one line per event, for people on a terminal, as JSON otherwise; never a secret.

Whatever a process says goes this way: what libraries log, warnings, and errors that nobody has caught.
"""

import logging
import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, TextIO

import structlog

from actors.lines import Lines, Output, console_renderer, render_json
from actors.redaction import printable

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

log = structlog.get_logger()


def configure_logs(level: str, *, actor: str, to: TextIO | None = None) -> None:
    """Log to standard error from now on, or to a file; every line with the actor's name."""
    stream = sys.stderr if to is None else to
    output = Output(stream)
    render = console_renderer() if stream.isatty() else render_json
    structlog.configure(
        processors=[Lines(actor, render)],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *_: output,
        cache_logger_on_first_use=False,
    )
    _hear_libraries()
    _hear_errors()


def _hear_libraries() -> None:
    """Take what libraries log, from warnings on, asyncio's errors that nobody has retrieved among them."""
    root = logging.getLogger()
    root.handlers[:] = [_Library()]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)


class _Library(logging.Handler):
    """Hands on what a library logs."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log it as a line of ours."""
        facts: dict[str, Any] = {"logger": record.name, "detail": _text_of(record)}
        if record.exc_info:
            facts["exc_info"] = record.exc_info
        level = min(record.levelno // 10 * 10, logging.CRITICAL)  # levels in between are a library's own
        with suppress(Exception):
            log.log(level, "library.logged", **facts)


def _text_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # its arguments do not fit; logging itself would print all of them
        return printable(record.msg)


def _hear_errors() -> None:
    """Take what Python would print: errors that nobody has caught, in the process, in a thread, and while cleaning."""
    sys.excepthook = _on_error
    sys.unraisablehook = _on_unraisable
    threading.excepthook = _on_thread_error


def _on_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    with suppress(Exception):
        log.critical("process.crashed", exc_info=(kind, error, trace))


def _on_thread_error(found: threading.ExceptHookArgs) -> None:
    with suppress(Exception):
        thread = found.thread.name if found.thread else ""
        log.error("thread.crashed", thread=thread, exc_info=found.exc_value)


def _on_unraisable(found: "sys.UnraisableHookArgs") -> None:
    with suppress(Exception):
        log.error("error.ignored", where=repr(found.object), detail=found.err_msg or "", exc_info=found.exc_value)
