"""Errors of the settings: all are the person's to mend, and none is cured by trying again.

SettingsError (a BusError)    stop with a message: every problem that was found, each with its place and what to do
├── SecretUnavailableError    a reference is well formed, but there is no secret to be had where it points
└── StateFolderError          the state folder cannot be used: in the project, open to others, or not ours to write
"""

from collections.abc import Sequence

import msgspec

from bus.errors import BusError


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong: `place` is a file and line, a variable or a flag; `fix` says what to do, if we know."""

    place: str
    key: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        # A variable is often both the place and the key.
        subject = self.key if self.key == self.place else f"{self.place}: {self.key}"
        return " ".join(part for part in (subject, self.what) if part) + (f"; {self.fix}" if self.fix else "")


class SettingsError(BusError):
    """The settings cannot be used; `problems` has every reason, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self._message())

    def _message(self) -> str:
        if len(self.problems) == 1:
            return str(self.problems[0])
        lines = [f"  - {each}" for each in self.problems]
        return "\n".join([f"{len(lines)} problems in the settings:", *lines])


class SecretUnavailableError(SettingsError):
    """There is no secret where `reference` points; `reason` says why."""

    def __init__(self, reference: str, reason: str, fix: str) -> None:
        self.reference = reference
        self.reason = reason
        self.fix = fix
        super().__init__([Problem(place="secret", key=reference, what=reason, fix=fix)])

    def of_setting(self, place: str, key: str) -> SettingsError:
        """The same for whoever has to mend it: the setting that holds the reference, and where it stands."""
        what = f"refers to {self.reference}, which {self.reason}"
        return SettingsError([Problem(place=place, key=key, what=what, fix=self.fix)])


class StateFolderError(SettingsError):
    """`folder` cannot hold the project's state; `reason` says why."""

    def __init__(self, folder: str, reason: str, fix: str) -> None:
        self.folder = folder
        self.reason = reason
        super().__init__([Problem(place="state folder", key=folder, what=reason, fix=fix)])
