"""The `supervisor` command. It comes with the supervisor tree; until then it says so and fails."""

import sys

from bus.exits import Exit


def main() -> None:
    """Entry point of the command."""
    sys.stderr.write("supervisor: this version has no supervisor tree yet; `bus --help` shows what there is\n")
    sys.exit(Exit.FAILED)
