"""Interleaved rounds: both sides in every round, the order alternating, and the median over all rounds.

What disturbs the machine for a while disturbs both sides of a round; what disturbs one operation is not its median.
"""

from statistics import median
from time import perf_counter
from typing import Protocol, runtime_checkable

import msgspec


@runtime_checkable
class Side(Protocol):
    """One way of doing a thing that is measured."""

    async def ready(self, operations: int) -> None:
        """Prepare that many operations; not measured."""

    async def act(self) -> None:
        """Do the next operation; measured."""


class ClockedSide(Protocol):
    """As a Side, for operations that know themselves when they began and ended."""

    async def ready(self, operations: int) -> None:
        """Prepare that many operations; not measured."""

    async def laps(self, operations: int) -> list[float]:
        """Do that many operations, and say how many seconds each took."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """The same thing done with the raw library and with our code."""

    raw: Side
    ours: Side | ClockedSide


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured; the first rounds only warm up and are thrown away."""

    rounds: int
    operations: int
    warm_up_rounds: int = 3


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The median second of an operation of ours, and the median of ours over raw, round by round."""

    seconds: float
    ratio: float


async def compare(pairs: list[Pair], pace: Pace) -> list[Comparison]:
    """Measure several pairs together, so that they can be compared with each other as well."""
    rounds: list[list[tuple[float, float]]] = [[] for _ in pairs]
    for number in range(pace.warm_up_rounds + pace.rounds):
        for pair, measured in zip(pairs, rounds, strict=True):
            measured.append(await _round(pair, pace.operations, raw_first=number % 2 == 0))
    return [_comparison(measured[pace.warm_up_rounds :]) for measured in rounds]


async def _round(pair: Pair, operations: int, *, raw_first: bool) -> tuple[float, float]:
    await pair.raw.ready(operations)
    await pair.ours.ready(operations)
    if raw_first:
        raw = await _typical_seconds(pair.raw, operations)
        return raw, await _typical_seconds(pair.ours, operations)
    ours = await _typical_seconds(pair.ours, operations)
    return await _typical_seconds(pair.raw, operations), ours


async def _typical_seconds(side: Side | ClockedSide, operations: int) -> float:
    return median(await _laps(side, operations) if isinstance(side, Side) else await side.laps(operations))


async def _laps(side: Side, operations: int) -> list[float]:
    times = []
    for _ in range(operations):
        start = perf_counter()
        await side.act()
        times.append(perf_counter() - start)
    return times


def _comparison(rounds: list[tuple[float, float]]) -> Comparison:
    return Comparison(seconds=median(ours for _, ours in rounds), ratio=median(ours / raw for raw, ours in rounds))
