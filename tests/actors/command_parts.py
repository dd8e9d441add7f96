"""Understudies for the `actor` command; what they change is in the folder that OUTSIDE names."""

import os
from pathlib import Path

import msgspec
import structlog

from actors.errors import EffectError
from actors.runtime.executors import Executors
from actors.runtime.world import World
from tests.actors.folder import Folder
from tests.actors.understudies.effects import Think, Thought
from tests.actors.understudies.parts import parts

log = structlog.get_logger()

_PARTS = parts(Folder(Path(os.environ["OUTSIDE"])))
CODER = _PARTS["coder"]
ARCHITECT = _PARTS["architect"]
PM = _PARTS["pm"]


def _leak(world: World) -> Executors:
    """Executors that say the key of the model wherever they can."""
    key = os.environ["ANTHROPIC_API_KEY"]

    async def think(_: Think) -> Thought:
        log.warning("model.called", header=f"x-api-key: {key}", nested={"keys": [key]})
        raise EffectError(f"the key {key} is wrong", f"sent {key}")

    return {**CODER.executors(world), Think: think}


LEAKY = msgspec.structs.replace(CODER, executors=_leak)
