"""How actors log: one line per event, for people on a terminal, as JSON otherwise; never a secret."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from actors.redaction import redact_all

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure_logs(level: str, *, actor: str) -> None:
    """Log to standard error from now on, every line with the actor's name."""
    is_terminal = sys.stderr.isatty()
    renderer: Any = structlog.dev.ConsoleRenderer() if is_terminal else structlog.processors.JSONRenderer(default=str)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _hide_secrets,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(actor=actor)


def _hide_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: redact_all(value) for key, value in event.items()}
