"""What is shown of an exception that nobody caught."""

from collections.abc import Iterator
from pathlib import Path
from traceback import FrameSummary, TracebackException

FRAMES_MAX = 5
CHAIN_MAX = 4
LINE_CHARACTERS_MAX = 200
_HERE = f"{Path(__file__).resolve().parents[2]}/"


def shortened(error: BaseException) -> str:
    """An exception and what led to it, the last first, and of each the innermost frames, one to a line."""
    chain = list(_chain(TracebackException.from_exception(error, capture_locals=False)))
    lines = [line for word, link in chain[:CHAIN_MAX] for line in _lines(word, link)]
    return "\n".join(lines + [f"and {len(chain) - CHAIN_MAX} before that"] * (len(chain) > CHAIN_MAX))


def _chain(error: TracebackException) -> Iterator[tuple[str, TracebackException]]:
    link: TracebackException | None = error
    word = ""
    while link is not None:
        yield word, link
        if link.__cause__ is not None:
            word, link = "because of ", link.__cause__
        else:
            word, link = "on the way from ", None if link.__suppress_context__ else link.__context__


def _lines(word: str, error: TracebackException) -> Iterator[str]:
    said = " ".join("".join(error.format_exception_only()).split())
    yield f"{word}{said}"[:LINE_CHARACTERS_MAX]
    yield from (f"  {_place(frame)}"[:LINE_CHARACTERS_MAX] for frame in error.stack[-FRAMES_MAX:])


def _place(frame: FrameSummary) -> str:
    name = frame.filename.removeprefix(_HERE)
    return f"{name}:{frame.lineno} {frame.name}: {frame.line}"
