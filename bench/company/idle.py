"""What a company costs that has nothing to do: the memory of each actor, and the processors' time of all together."""

import asyncio
import time
from statistics import median

from bench.company.machine import private_bytes, processor_seconds
from bench.company.running import SETTINGS, Company, open_company, until
from bench.measures import Result
from bench.run import talk

MANY = 200
MEGABYTE = 1_000_000
MEGABYTES_MAX = 15.0

FEW = 8
"""With the PM and the architect a company of ten."""
CALM_SECONDS = 40.0
PERCENT_MAX = 2.0

SETTLE_SECONDS = 15.0
"""Until everybody was heard of twice more, and the zygote that stands ready has imported everything."""


async def measure_idle_actors() -> dict[str, Result]:
    """The private memory of each of many coders, who are all ready and heard of again and again."""
    talk(f"starting {MANY} coders, a PM and an architect")
    async with open_company(f"{SETTINGS}supervisor.coders = {MANY}\n") as company:
        talk(f"  all are ready after {company.up_seconds:.1f} s")
        first = await _heartbeats(company)
        await asyncio.sleep(SETTLE_SECONDS)
        beating = await until(lambda: _all_beat_since(company, first), f"{MANY} coders have been heard of again")
        coders = [child.pid for child in (await company.standing()).children if child.runs == "coder"]
        sizes = [private_bytes(pid) / MEGABYTE for pid in coders]
    talk(f"  private memory of an idle actor: {median(sizes):.1f} MB, the largest {max(sizes):.1f} MB")
    return {
        "idle_actor_private_mb": _beside(median(sizes), MEGABYTES_MAX),
        "idle_actor_private_mb_max": _beside(max(sizes), MEGABYTES_MAX),
        "idle_actors_alive": Result(value=beating, ratio=round(MANY / beating, 3), target=1.0, met=beating >= MANY),
    }


async def measure_idle_company() -> dict[str, Result]:
    """What all processes of a company of ten use of one core: actors, supervisor, zygotes and broker."""
    async with open_company(f"{SETTINGS}supervisor.coders = {FEW}\n") as company:
        await asyncio.sleep(SETTLE_SECONDS)
        talk(f"measuring an idle company of {FEW + 2} for {CALM_SECONDS:g} s")
        pids = await company.family()
        began, before = time.monotonic(), processor_seconds(pids)
        await asyncio.sleep(CALM_SECONDS)
        used = processor_seconds(pids) - before
        percent = 100 * used / (time.monotonic() - began)
    return {"idle_company_core_percent": _beside(percent, PERCENT_MAX)}


async def _heartbeats(company: Company) -> dict[str, int]:
    """The revision of each coder's heartbeat that says it is ready."""
    return {
        lease.key: lease.revision
        async for lease, holder in company.bus.leases.all("coder.actor")
        if holder.details.get("ready")
    }


async def _all_beat_since(company: Company, first: dict[str, int]) -> int | None:
    """How many are heard of and have renewed since; None while it is not everybody."""
    now = await _heartbeats(company)
    beating = sum(1 for key, revision in now.items() if revision > first.get(key, 0))
    return beating if beating >= MANY else None


def _beside(value: float, most: float) -> Result:
    """A value that has a limit instead of something to be compared with."""
    ratio = round(value / most, 3)
    return Result(value=round(value, 4), ratio=ratio, target=1.0, met=ratio <= 1.0)
