"""The `bus` command: what is said on the bus, to read and to write."""

import sys

from bus.cli import dead, history, machines, publish, server, tail
from bus.cli.app import app, run_app

__all__ = ["app", "dead", "history", "machines", "main", "publish", "server", "tail"]


def main() -> None:
    """Entry point of the command."""
    sys.exit(run_app())
