"""Kill -9: how long until the same session has done its next step, beside a fresh interpreter and Ray's actor restart.

The architect walks. It is killed at any moment, and the clock stops at the first record of its next process that is a
step of its own, and not the one by which it claims the journal. It is killed again only when its supervisor has
forgotten the last time: the pause after failures in a row is meant, and nothing to be measured.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Protocol

import msgspec

from bench.company.running import SETTINGS, Company, open_company, until
from bench.measures import Result, judge
from bench.race import OURS, Peer, open_peer
from bench.rounds import Comparison
from bench.run import talk
from protocol.messages import ApprovalRequest
from protocol.record import Record, decode_record

ROUNDS = 7
WARM_UP_ROUNDS = 1
FORGET_SECONDS = 1.0

TARGETS = {"fresh_interpreter": 0.05, "ray": 0.2, "ray_same_imports": 0.2}
"""One twentieth, and one fifth."""

TREE = f"""
[[tree.children]]
name = "broker"
runs = "broker"

[[tree.children]]
name = "health"
runs = "health"

[[tree.children]]
name = "agents"
failures_seconds = {FORGET_SECONDS}

[[tree.children.children]]
name = "architect"
runs = "architect"
"""


class Contestant(Protocol):
    """Somebody who has to begin again."""

    async def seconds(self) -> float:
        """How long it took this time."""


async def measure_restart() -> dict[str, Result]:
    """Ours beside all others, in every round."""
    async with AsyncExitStack() as stack:
        company = await stack.enter_async_context(open_company(SETTINGS + TREE))
        contestants: dict[str, Contestant] = {OURS: await Walker.begin(company), "fresh_interpreter": Fresh()}
        contestants |= await _open_ray(stack)
        talk(f"measuring how long a restart takes, against {', '.join(list(contestants)[1:])}")
        rounds = [
            {name: await each.seconds() for name, each in contestants.items()} for _ in range(WARM_UP_ROUNDS + ROUNDS)
        ]
    return _judged(rounds[WARM_UP_ROUNDS:])


def _judged(rounds: list[dict[str, float]]) -> dict[str, Result]:
    found = {}
    for name in rounds[0]:
        talk(f"  {name}: {1000 * median(each[name] for each in rounds):.0f} ms")
    seconds = median(each[OURS] for each in rounds)
    for name, target in TARGETS.items():
        if name in rounds[0]:
            ratio = median(each[OURS] / each[name] for each in rounds)
            found[f"restart_vs_{name}"] = judge(Comparison(seconds=seconds, ratio=ratio), target)
    return found


class Walker:
    """The session that walks."""

    def __init__(self, company: Company) -> None:
        self._company = company

    @classmethod
    async def begin(cls, company: Company) -> "Walker":
        """Have it walk."""
        letter = company.office.letter(ApprovalRequest(approval_type="plan", content=""), "architect.main", "REQUEST")
        await company.bus.mail.send(letter)
        return cls(company)

    async def seconds(self) -> float:
        """Kill its process, and look up when the next one took its first step."""
        await asyncio.sleep(FORGET_SECONDS + 0.5)  # counted from when it was ready, which was a moment ago
        pid = next(child.pid for child in (await self._company.standing()).children if child.name == "architect")
        before = await self._company.records_after(await self._company.journal_end() - 1)
        last = decode_record(before[-1].data)
        killed_at = datetime.now(UTC)
        os.kill(pid, signal.SIGKILL)

        async def next_step() -> datetime | None:
            for message in await self._company.records_after(before[-1].sequence):
                if _is_step_after(last, decode_record(message.data)):
                    return message.stored_at
            return None

        stored_at: datetime = await until(next_step, "the killed session has taken its next step")
        return (stored_at - killed_at).total_seconds()


def _is_step_after(last: Record, record: Record) -> bool:
    event: Mapping[str, Any] = msgspec.json.decode(record.event)
    return record.incarnation != last.incarnation and event["event"] != "resumed"


class Fresh:
    """An interpreter that is started anew."""

    async def seconds(self) -> float:
        """Until it has imported all that an actor needs."""
        began = perf_counter()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.company.fresh", stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        seconds = perf_counter() - began
        await process.wait()
        return seconds


class RayActor:
    """An actor of Ray's."""

    def __init__(self, peer: Peer, kind: str) -> None:
        self._peer = peer
        self._kind = kind

    async def seconds(self) -> float:
        """Until it answers again."""
        return await self._peer.ask(self._kind)


async def _open_ray(stack: AsyncExitStack) -> dict[str, Contestant]:
    if find_spec("ray") is None:
        talk("SKIPPED: ray is not installed")
        return {}
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-"))  # a short name: sockets lie in it
    try:
        peer = await stack.enter_async_context(open_peer("ray_worker.py", folder, python=Path(sys.executable)))
    except RuntimeError as error:
        talk(f"SKIPPED: ray: {error}")
        return {}
    return {"ray": RayActor(peer, "bare"), "ray_same_imports": RayActor(peer, "same_imports")}
