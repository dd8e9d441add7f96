"""One command line from its words to an exit code, whichever command it is, and what becomes of an error."""

import logging
import sys
from collections.abc import Sequence

import structlog
import typer
from typer.exceptions import TyperException

from bus.cli.failures import StoppedError, explain
from bus.cli.output import output_failure, prepare_streams
from bus.cli.running import stoppable
from bus.cli.usage import say_usage
from bus.exits import Exit


def run_program(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run one command line; every error becomes a sentence, with `--json` also data, and an exit code."""
    name = str(app.info.name)
    prepare_streams(name)
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.dev.ConsoleRenderer(colors=False)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),  # a command talks for itself
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    # Asked of the words themselves: a command line that cannot be parsed is one of the errors.
    json = "--json" in arguments
    try:
        return _run(app, name, arguments)
    except TyperException as error:
        return say_usage(error, json=json)
    except SystemExit:
        return Exit.OK  # typer's way out when nobody reads the help any more
    except Exception as error:
        code = explain(output_failure(error) or error, json=json)
        if code is None:
            raise
        return code


def _run(app: typer.Typer, name: str, arguments: Sequence[str]) -> int:
    try:
        with stoppable():
            result = app(list(arguments), prog_name=name, standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        raise StoppedError(Exit.INTERRUPTED) from None
    if result == Exit.INTERRUPTED:  # what typer makes of Ctrl-C; no command returns it
        raise StoppedError(Exit.INTERRUPTED)
    return result if isinstance(result, int) else Exit.OK
