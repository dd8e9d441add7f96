"""The `supervisor` command: start the company, see how it is, and steer it."""

import sys

from bus.exits import Exit


def main() -> None:
    """Entry point of the command. It imports here, so that Ctrl-C is no traceback however early it comes."""
    try:
        from supervisors.cli.commands import run_command  # noqa: PLC0415 -- see above

        code = run_command(sys.argv[1:])
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    sys.exit(code)
