"""What is measured and what is aimed at: one list of scenarios to run, one list of measures to report.

To add a measure: write its two sides (`bench.rounds.Side`) in a module of its own, name them in SCENARIOS, and say in
MEASURES which figure of it counts and what the target is.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from bench.journal import fill_journals, journal_pair
from bench.mail import fill_mail, mail_pair
from bench.rounds import Comparison, Pace, Pair
from bench.server import SYNCS, Sync
from bench.world import World

SESSIONS = (10, 1_000, 10_000)

TARGETS: Mapping[Sync, float] = {"always": 1.25, "default": 1.5}
GROWTH_TARGET = 1.15
"""No growth would be 1.00. Each of the two ratios behind it wavers by some hundredths from run to run, while anything
that looks at every subject would grow a thousandfold: 1.15 is above the noise and far below any real growth."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Something done in two ways: filled once per number of sessions, measured under both sync settings."""

    name: str
    fill: Callable[[World], Awaitable[None]]
    pair: Callable[[World], Awaitable[Pair]]
    pace: Pace


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(name="journal_append", fill=fill_journals, pair=journal_pair, pace=Pace(rounds=150, operations=20)),
    Scenario(name="request_response", fill=fill_mail, pair=mail_pair, pace=Pace(rounds=150, operations=8)),
)


class Cell(NamedTuple):
    """One scenario under one sync setting with one number of sessions."""

    scenario: str
    sync: Sync
    sessions: int


Comparisons = Mapping[Cell, Comparison]


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report."""

    name: str
    target: float
    figure: Callable[[Comparisons], Comparison]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A measure's outcome: ours in milliseconds (or in what its name ends with), the ratio, and whether it is met."""

    value: float
    ratio: float
    target: float
    met: bool


def _against_raw(scenario: str) -> Iterator[Measure]:
    for sync in SYNCS:
        for sessions in SESSIONS:
            cell = Cell(scenario, sync, sessions)
            name = f"{scenario}_{sync}_{sessions}_sessions"
            yield Measure(name=name, target=TARGETS[sync], figure=lambda comparisons, cell=cell: comparisons[cell])  # type: ignore[misc]  # mypy cannot infer a lambda's default


def _growth(scenario: str) -> Iterator[Measure]:
    for sync in SYNCS:
        few, many = (Cell(scenario, sync, sessions) for sessions in (SESSIONS[0], SESSIONS[-1]))

        def figure(comparisons: Comparisons, few: Cell = few, many: Cell = many) -> Comparison:
            growth = comparisons[many].ratio / comparisons[few].ratio
            return Comparison(seconds=comparisons[many].seconds, ratio=growth)

        yield Measure(name=f"{scenario}_{sync}_growth", target=GROWTH_TARGET, figure=figure)


MEASURES: tuple[Measure, ...] = (
    *_against_raw("journal_append"),
    *_growth("journal_append"),
    *_against_raw("request_response"),
    *_growth("request_response"),
)


def results(comparisons: Comparisons) -> dict[str, Result]:
    """Every measure's outcome, by its name."""
    return {measure.name: judge(measure.figure(comparisons), measure.target) for measure in MEASURES}


def judge(figure: Comparison, target: float) -> Result:
    """What a figure comes to beside its target."""
    ratio = round(figure.ratio, 3)
    return Result(value=round(figure.seconds * 1000, 4), ratio=ratio, target=target, met=ratio <= target)
