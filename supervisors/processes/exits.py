"""Exits that nobody heard of: a zygote that has outlived its supervisor leaves them for the next one to tell.

Only for its own children: of those whose zygote had died before, or dies with the supervisor, nobody can.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from supervisors.processes.orders import Resources

EXITS = "exits.jsonl"


class Unheard(msgspec.Struct, frozen=True, kw_only=True):
    """How an actor's process has ended."""

    machine: str
    actor: str
    log: str
    pid: Annotated[int, msgspec.Meta(ge=1)]
    code: Annotated[int, msgspec.Meta(ge=-64, le=255)]
    lived_seconds: float
    resources: Resources = Resources()


_decoder = msgspec.json.Decoder(Unheard)


def leave(company: str, unheard: Unheard) -> None:
    """Write it down beside the company's lock; on a full disk it is lost."""
    with suppress(OSError):
        file = os.open(_file(Path(company).parent), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, msgspec.json.encode(unheard) + b"\n")
        finally:
            os.close(file)


def read(folder: Path) -> list[Unheard]:
    """What an earlier company's zygotes have left in the supervisor's folder."""
    found = []
    try:
        lines = _file(folder).read_bytes().splitlines()
    except OSError:
        return []
    for line in lines:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found.append(_decoder.decode(line))
    return found


def forget(folder: Path) -> None:
    """All of it is told."""
    with suppress(OSError):
        _file(folder).unlink(missing_ok=True)


def _file(folder: Path) -> Path:
    return folder / EXITS
