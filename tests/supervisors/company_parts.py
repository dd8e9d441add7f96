"""Understudies for a whole company, and a probe of their model; all is in the folder that OUTSIDE names.

A file `down` says that the model cannot be reached, `thinking` how many seconds it takes to answer.
"""

import os
from pathlib import Path

from bus.bus import Bus
from supervisors.health.probes import Probe
from tests.actors.folder import Folder
from tests.actors.understudies.parts import parts

_PLACE = Path(os.environ["OUTSIDE"])


class _Outside(Folder):
    def thinking_seconds(self) -> float:
        path = _PLACE / "thinking"
        return float(path.read_text()) if path.exists() else 0.0


_OUTSIDE = _Outside(_PLACE)
_PARTS = parts(_OUTSIDE)
CODER = _PARTS["coder"]
ARCHITECT = _PARTS["architect"]
PM = _PARTS["pm"]


async def _check(_: Bus) -> None:
    if not _OUTSIDE.is_up():
        raise ConnectionError("overloaded")


MODEL = Probe(name="model", check=_check)
