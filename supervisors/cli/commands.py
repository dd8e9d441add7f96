"""The whole command line of `supervisor`: every command there is."""

from collections.abc import Sequence

from bus.cli.program import run_program
from supervisors.cli import brake, clean, logs, restart, restore, scale, settings, status, stop, tree, up, why
from supervisors.cli.app import app

__all__ = [
    "app",
    "brake",
    "clean",
    "logs",
    "restart",
    "restore",
    "run_command",
    "scale",
    "settings",
    "status",
    "stop",
    "tree",
    "up",
    "why",
]


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    return run_program(app, arguments)
