"""A company that thinks, under its supervisor and the embedded broker's permissions, through an outage and a kill."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.rehearsal.faults import Fault, Latency
from actors.rehearsal.server import Rehearsal
from bus.bus import Bus
from protocol.machine import SUSPEND
from tests.supervisors.owner import Owner, end_all, eventually
from tests.thinking.company import KEY, writes
from tests.thinking.thinker import FILE

SETTINGS = """
[parts]
coder = "tests.thinking.thinker:THINKER"

[supervisor]
coders = 1

[model]
base_url = "{url}"
attempts_max = 1

[health]
model = "always"
interval_seconds = 0.3
healthy_after = 1
unhealthy_after = 1

[tree]
children = [
    {{ name = "broker", runs = "broker" }},
    {{ name = "health", runs = "health" }},
    {{ name = "coders", runs = "coder" }},
]
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(tmp_path)
    owner.environ["CALLBOARD_ANTHROPIC_API_KEY"] = KEY
    yield owner
    left = owner.processes()
    end_all(left)
    assert left == []


async def test_an_outage_of_the_model_is_a_pause_and_a_kill_in_it_is_nothing(owner: Owner, tmp_path: Path) -> None:
    slowly = Fault(kind="latency", latency=Latency(seconds=0.1), seconds=3600)
    async with Rehearsal(writes(6), [slowly]) as model:
        owner.settings(SETTINGS.format(url=model.url))
        async with owner.company() as office:
            await office.order("s-1")
            await office.reaches("s-1.1", "CODING")
            model.add(Fault(kind="overloaded", seconds=3600))
            await office.reaches("s-1.1", SUSPEND)
            ill = await eventually("the model is found ill", lambda: illness(office.bus))
            coder = (await office.pids())["coder-1"]
            os.kill(coder, signal.SIGKILL)
            await office.again("coder-1", coder)
            state = await office.state("s-1.1")
            model.clear()
            await office.reaches("s-1.1", "DONE")
            cost = await owner.bus("cost", "--by", "story", "--json")
            offences = await office.offences()

    lines = (tmp_path / "outside" / "s-1" / FILE).read_text().splitlines()
    assert "529" in ill
    assert state == SUSPEND
    assert [line.partition(" ")[2] for line in lines] == [f"line {n}" for n in range(6)]
    assert offences == []
    assert (cost.code, "s-1" in cost.out) == (0, True)


async def illness(bus: Bus) -> str | None:
    health = await bus.health.get()
    services = health.services if health else ()
    return next((each.error for each in services if each.name == "model" and not each.healthy), None)
