"""Probes as a person's module may have them, good ones and others."""

from bus.bus import Bus
from supervisors.health.probes import Probe


async def _nothing(_: Bus) -> None:
    """Whatever it is, it is healthy."""


FORGE = Probe(name="forge", check=_nothing)
MODELS = [Probe(name="model-small", check=_nothing), Probe(name="model-large", check=_nothing)]
MIXED = [FORGE, "model"]
BROKER = Probe(name="broker", check=_nothing)
