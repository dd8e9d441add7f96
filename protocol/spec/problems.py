"""Collecting problems, so that a person hears of all of them at once."""

from typing import NoReturn

from protocol.errors import SpecError
from protocol.spec.model import SpecProblem

SHOWN_CHARACTERS_MAX = 80


class Problems:
    """The problems of one text. Readers add what they find and go on as well as they can."""

    def __init__(self) -> None:
        self._found: list[SpecProblem] = []

    def add(self, index: int, what: str, fix: str) -> None:
        """Note a problem; `index` counts lines from 0, as everything inside this package does."""
        self._found.append(SpecProblem(line=index + 1, what=what, fix=fix))

    def stop(self, index: int, what: str, fix: str) -> NoReturn:
        """Note a problem that leaves nothing sensible to read after it, and raise."""
        self.add(index, what, fix)
        self._raise()

    def check(self) -> None:
        """Raise SpecError if anything was found."""
        if self._found:
            self._raise()

    def _raise(self) -> NoReturn:
        raise SpecError(tuple(sorted(self._found, key=lambda problem: problem.line)))


def shown(text: str) -> str:
    """A piece of the person's text for a message: quoted, on one line and not too long."""
    line = " ".join(text[: SHOWN_CHARACTERS_MAX + 1].split())
    return f"“{line[:SHOWN_CHARACTERS_MAX]}…”" if len(text) > SHOWN_CHARACTERS_MAX else f"“{line}”"
