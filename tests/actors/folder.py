"""The world outside as a folder, for understudies in processes of their own: what they change survives them."""

import os
from pathlib import Path

from actors.core.effects import Effect
from tests.actors.understudies.outside import BASE, Payment


class Folder:
    """What effects touch, as files; each is written at once and wholly."""

    def __init__(self, path: Path) -> None:
        self._path = path
        for name in ("trees", "announcements"):
            (path / name).mkdir(parents=True, exist_ok=True)

    # What understudies do.

    def touch(self, effect: Effect, incarnation: str) -> None:
        """Note who begins what."""
        self._append("touched", f"{effect.id} {incarnation}")

    def is_up(self) -> bool:
        """The model is down while there is a file that says so."""
        return not (self._path / "down").exists()

    def breaks(self) -> bool:
        """Never."""
        return False

    def pay(self, payment: Payment) -> None:
        """One line for each payment."""
        self._append("payments", f"{payment.effect} {payment.incarnation}")

    def write(self, effect: str, base: str, line: str) -> str:
        """A tree is a file named after all its lines; the same write gives the same tree."""
        head = f"{base}+{line.replace(' ', '-')}"
        (self._path / "trees" / head).write_text(effect)
        return head

    def announce(self, effect: str, line: str) -> None:
        """One file for each effect."""
        (self._path / "announcements" / effect.replace("/", ".")).write_text(line)

    def thinking_seconds(self) -> float:
        """No time at all."""
        return 0.0

    def _append(self, name: str, line: str) -> None:
        descriptor = os.open(self._path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, f"{line}\n".encode())
        finally:
            os.close(descriptor)

    # What a test sees.

    def lines(self, name: str) -> list[str]:
        """What was noted under a name."""
        path = self._path / name
        return path.read_text().splitlines() if path.exists() else []

    @property
    def announcements(self) -> list[str]:
        """What was announced, by whatever effects."""
        return sorted(path.read_text() for path in (self._path / "announcements").iterdir())

    @property
    def trees(self) -> list[str]:
        """All trees but the first."""
        return sorted(path.name for path in (self._path / "trees").iterdir() if path.name != BASE)
