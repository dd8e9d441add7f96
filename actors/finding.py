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


def find_part(machine: str, place: str = "") -> Part:
    """The part that stands at `place` (`MODULE:NAME`), or the machine's own agent; NoPartError if there is none."""
    if machine not in MACHINES:
        raise NoPartError(f"there is no machine {machine}: one of {', '.join(MACHINES)}")
    place = place or PARTS.get(machine, "")
    if not place:
        raise NoPartError(f"this version has no agent for {machine} yet: name one with --part MODULE:NAME")
    module, _, name = place.partition(":")
    if not (module and name):
        raise NoPartError(f"--part {place}: write MODULE:NAME, for example my_package.parts:CODER")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever somebody's module does when it is imported
        raise NoPartError(f"--part {place}: {type(error).__name__}: {reason_of(error)}{_where(error)}") from error
    if not isinstance(found, Part):
        raise NoPartError(f"--part {place} is a {type(found).__name__}, no Part")
    if found.behaviour.machine.name != machine:
        raise NoPartError(f"--part {place} plays {found.behaviour.machine.name}, not {machine}")
    return found


def _where(error: Exception) -> str:
    """The last place of a traceback: in a module of one's own, most often the one to look at."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = last.filename == __file__ or last.filename.startswith("<frozen")
    return "" if is_ours else f" ({last.filename}:{last.lineno})"
