"""The `actor` command. The agents come with the runtime; until then it says so and fails."""

import sys

from bus.exits import Exit


def main() -> None:
    """Entry point of the command."""
    sys.stderr.write("actor: this version has no agents yet; `bus --help` shows what there is\n")
    sys.exit(Exit.FAILED)
