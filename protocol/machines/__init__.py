"""The five machines by name, and the editions: teams of machines that fit together."""

from collections.abc import Mapping
from types import MappingProxyType

from protocol.errors import UnknownMachineError
from protocol.machine import Machine
from protocol.machines.architect import ARCHITECT
from protocol.machines.architect_classic import ARCHITECT_CLASSIC
from protocol.machines.coder import CODER
from protocol.machines.coder_classic import CODER_CLASSIC
from protocol.machines.pm import PM

MACHINES: Mapping[str, Machine] = MappingProxyType(
    {each.name: each for each in (PM, ARCHITECT, CODER, ARCHITECT_CLASSIC, CODER_CLASSIC)}
)

EDITIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "standard": (PM.name, ARCHITECT.name, CODER.name),
        "classic": (ARCHITECT_CLASSIC.name, CODER_CLASSIC.name),
    }
)


def machine(name: str) -> Machine:
    """The machine called `name`; raises UnknownMachineError, which lists the names there are."""
    if name not in MACHINES:
        raise UnknownMachineError(name, tuple(MACHINES))
    return MACHINES[name]
