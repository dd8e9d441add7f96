"""The supervisor's measures: restarts, restores, and what an idle company costs. They are taken by `bench.company`.

Under the interpreter of the peers, because the actors that are measured import what agents will import, and an actor of
Ray's stands beside them.
"""

import shutil
import subprocess
from pathlib import Path

import msgspec

from bench.measures import Result
from bench.race import PEERS_PYTHON
from bench.run import talk

ROOT = Path(__file__).parents[1]


def measure_supervision() -> dict[str, Result]:
    """All of them; none where the peers are not installed."""
    if shutil.which(PEERS_PYTHON) is None:
        talk(f"SKIPPED: supervision, no peers in {PEERS_PYTHON.parents[1]}")
        return {}
    # Not `run`, which kills whom it waits for when it is interrupted: a company would be left behind.
    with subprocess.Popen([PEERS_PYTHON, "-m", "bench.company"], cwd=ROOT, stdout=subprocess.PIPE) as process:
        figures, _ = process.communicate()
    if process.returncode:
        raise RuntimeError("the companies could not be measured; what was said about it stands above")
    return msgspec.json.decode(figures, type=dict[str, Result])
