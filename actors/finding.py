"""Finding who plays a machine."""

import importlib
import traceback
from collections.abc import Mapping

from actors.errors import NoPartError
from actors.evidence import reason_of
from actors.hosting.part import Part
from protocol.machines import MACHINES

PARTS: Mapping[str, str] = {}
"""Who plays which machine, as `module:name`; the agents come one by one."""

WEB = "web"
"""The browser's actor follows no machine of the documents: until it is there, any part may stand in its place."""

_HOW_TO_NAME = {
    "--part": "name one as MODULE:NAME, with --part",
    "the part": "name one as MODULE:NAME in the setting parts.{}, or leave it out of [tree]",
}


def find_part(machine: str, place: str = "", named_by: str = "--part") -> Part:
    """The part that stands at `place` (`MODULE:NAME`), or the machine's own agent; NoPartError if there is none."""
    if machine not in MACHINES and machine != WEB:
        raise NoPartError(f"there is no machine {machine}: one of {', '.join(MACHINES)}")
    place = place or PARTS.get(machine, "")
    if not place:
        raise NoPartError(
            f"this version has no agent for {machine} yet: {_HOW_TO_NAME[named_by].format(machine.replace('-', '_'))}"
        )
    try:
        found = look_up(place, "my_package.parts:CODER")
    except LookupError as error:
        raise NoPartError(f"{named_by} {place}: {error}") from error
    if not isinstance(found, Part):
        raise NoPartError(f"{named_by} {place} is a {type(found).__name__}, no Part")
    if machine not in (found.behaviour.machine.name, WEB):
        raise NoPartError(f"{named_by} {place} plays {found.behaviour.machine.name}, not {machine}")
    return found


def look_up(place: str, example: str) -> object:
    """What stands at `MODULE:NAME`; LookupError, with words for a person, if that is nothing."""
    module, _, name = place.partition(":")
    if not (module and name):
        raise LookupError(f"write MODULE:NAME, for example {example}")
    try:
        found: object = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever somebody's module does when it is imported
        raise LookupError(f"{type(error).__name__}: {reason_of(error)}{_where(error)}") from error
    return found


def _where(error: Exception) -> str:
    """The last place of a traceback: in a module of one's own, most often the one to look at."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = last.filename == __file__ or last.filename.startswith("<frozen")
    return "" if is_ours else f" ({last.filename}:{last.lineno})"
