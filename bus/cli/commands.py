"""The whole command line of `bus`: every command there is."""

from collections.abc import Sequence

from bus.cli import asks, budget, cost, dead, history, machines, publish, server, specs, tail
from bus.cli.app import app
from bus.cli.program import run_program

__all__ = [
    "app",
    "asks",
    "budget",
    "cost",
    "dead",
    "history",
    "machines",
    "publish",
    "run_command",
    "server",
    "specs",
    "tail",
]


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    return run_program(app, arguments)
