"""Finding who plays a machine."""

import importlib
from collections.abc import Mapping

from actors.errors import NoPartError
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
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise NoPartError(f"--part {place}: {error}") from error
    if not isinstance(found, Part) or found.behaviour.machine.name != machine:
        raise NoPartError(f"--part {place} is no part for {machine}")
    return found
