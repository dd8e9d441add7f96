"""A company under fates from a seed: nothing is violated, each run can be repeated, and planted bugs are found."""

import os
import subprocess
import sys

import pytest

from tests.simulation import playbill
from tests.simulation.__main__ import seed_of_the_day
from tests.simulation.bugs import BUGS
from tests.simulation.playbill import Run, play_seed
from tests.simulation.theatre import Theatre

SEEDS = 200
CHUNKS = 10
FIRST = seed_of_the_day()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_company_survives_its_fates(chunk: int) -> None:
    count = SEEDS // CHUNKS
    for seed in range(FIRST + chunk * count, FIRST + (chunk + 1) * count):
        run = play_seed(seed)
        assert run.violations == [], run.report()


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = BUGS[bug]
    planted.plant(monkeypatch)

    found = first_to_violate(planted.violates)

    assert found is not None, f"{SEEDS} seeds have not found: {bug}"
    assert f"make simulate SEED={found.seed} SEEDS=1" in found.report()


def test_a_crash_is_reported_with_the_place_where_it_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS["a crash"].plant(monkeypatch)

    found = first_to_violate("nobody crashes")

    assert found is not None
    assert "    KeyError: " in found.report()
    assert "tests/simulation/bugs.py:" in found.report()
    assert not any("bugs.py" in line for line in found.trace)


def test_somebody_who_runs_in_circles_is_found_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer_asks(_: Theatre) -> None:
        while True:
            pass

    monkeypatch.setattr(playbill, "PROCESSOR_SECONDS_MAX", 1.0)
    monkeypatch.setattr(Theatre, "answer_asks", answer_asks)

    run = play_seed(0)

    assert [violation.invariant for violation in run.violations] == ["everything comes to its end"]
    assert "tests/simulation/test_seeds.py:" in run.report()


def first_to_violate(invariant: str) -> Run | None:
    """The first of the seeds that violates it."""
    runs = map(play_seed, range(SEEDS))
    return next((run for run in runs if invariant in {each.invariant for each in run.violations}), None)


def test_the_same_seed_has_the_same_trace_in_every_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--seed", "7", "--seeds", "3", "--digest"],
            env={**os.environ, "PYTHONHASHSEED": hashing, "PYTHONMALLOC": allocator},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hashing, allocator in (("1", "pymalloc"), ("2", "malloc"), ("3", "debug"))
    }

    assert len(digests) == 1
    assert len(digests.pop().splitlines()) == 3
