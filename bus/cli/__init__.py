"""The `bus` command: what is said on the bus, to read and to write."""

import sys

from bus.exits import Exit


def main() -> None:
    """Entry point of the command. It imports here, so that Ctrl-C is no traceback however early it comes."""
    try:
        from bus.cli.commands import run_command  # noqa: PLC0415 -- see above

        code = run_command(sys.argv[1:])
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    sys.exit(code)
