"""What rich has drawn, as the data of a command: in colours and as wide as the terminal, or plain."""

import io
import sys

from rich.console import Console, RenderableType

from bus.cli.output import show

PLAIN_WIDTH = 1000
"""Where no terminal sets a limit, no line is folded."""


def is_terminal() -> bool:
    """Whether a person looks at our output."""
    return sys.stdout is not None and sys.stdout.isatty()


def show_drawn(*drawn: RenderableType) -> None:
    """Print it; like all data, so that a reader who is gone is no failure."""
    canvas, terminal = io.StringIO(), is_terminal()
    console = Console(
        file=canvas,
        force_terminal=terminal,
        width=None if terminal else PLAIN_WIDTH,
        color_system="auto" if terminal else None,
        markup=False,
        highlight=False,
        emoji=False,
    )
    for each in drawn:
        console.print(each)
    show("\n".join(line.rstrip() for line in canvas.getvalue().splitlines()))
