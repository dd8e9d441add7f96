"""Probes: whether an API that the company needs does its work. A probe never costs money."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from actors.finding import look_up
from bus.bus import Bus
from protocol.errors import BadSubjectError
from protocol.subjects import check_token
from supervisors.errors import NoProbeError

PROBED = "supervisor.probe"
"""The key on the board that is written to see whether anything can be."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """How one API is probed: what `check` raises says that it is not healthy, and why."""

    name: str
    check: Callable[[Bus], Awaitable[None]]
    """Called again and again; given up when it takes too long."""
    ours: bool = False
    """Whether it is Callboard's own, which is known not to block."""

    def __post_init__(self) -> None:
        """A name that a person can type."""
        try:
            check_token(self.name)
        except BadSubjectError as error:
            raise ValueError(f"a probe cannot be called {self.name!r}: use a-z 0-9 - _") from error


async def _store(bus: Bus) -> None:
    """Have something stored under one key, where it replaces what the last probe stored."""
    await bus.board.put(PROBED, b"{}")


BROKER = Probe(name="broker", check=_store, ours=True)


def find_probes(places: str, others: Sequence[Probe] = ()) -> tuple[Probe, ...]:
    """The broker's own probe, `others`, and those at `places` (`MODULE:NAME`, several with commas); NoProbeError."""
    probes = [BROKER, *others]
    for place in filter(None, map(str.strip, places.split(","))):
        probes += _found(place)
    names = [probe.name for probe in probes]
    for name in names:
        if names.count(name) > 1:
            raise NoProbeError(places, f"two probes are called {name}: a person could not tell them apart")
    return tuple(probes)


def _found(place: str) -> Sequence[Probe]:
    try:
        found = look_up(place, "my_package.probes:PROBES")
    except LookupError as error:
        raise NoProbeError(place, str(error)) from error
    if isinstance(found, Probe):
        return (found,)
    if isinstance(found, list | tuple) and all(isinstance(each, Probe) for each in found):
        return found
    raise NoProbeError(place, f"it is a {type(found).__name__}, no Probe and no list of them")
