"""What a command reads: standard input, where a person or another program may be at the other end."""

import sys

from bus.cli.failures import CommandError
from bus.cli.output import say
from bus.exits import Exit

STDIN = "-"


def read_stdin(what: str, size: int) -> bytes:
    """At most `size` bytes; CommandError if there is nothing to read from."""
    if sys.stdin is None:
        raise CommandError(Exit.USAGE, f"standard input is closed: there is no {what} to read")
    if sys.stdin.isatty():
        say(f"reading the {what} from here; end it with Ctrl-D")
    try:
        return sys.stdin.buffer.read(size)
    except OSError as error:
        raise CommandError(Exit.USAGE, f"standard input cannot be read: {error.strerror}") from error
