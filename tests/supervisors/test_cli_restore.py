"""`supervisor restore`: only when all APIs are healthy, and with where everybody returned to."""

import asyncio
from pathlib import Path

from bus.bus import Bus
from tests.actors.real_company import SECONDS_MAX, RealCompany, Zygote
from tests.bus.command import Person
from tests.nats_server import NatsServer
from tests.supervisors.scenery import be_there, playing, suspend

SICK = """
from supervisors.health.probes import Probe

async def check(_):
    raise ConnectionError("529 \\x1b[2Joverloaded")

SICK = Probe(name="model", check=check)
"""


async def test_a_real_coder_returns_to_where_it_was(shared_server: NatsServer, tmp_path: Path) -> None:
    async with (
        Zygote.open() as zygote,
        RealCompany.open(zygote, shared_server.url, "clirestore", tmp_path / "outside") as company,
    ):
        person = Person(tmp_path, shared_server.url, "clirestore")
        (tmp_path / "outside" / "down").touch()
        await company.start("coder", "coder-1")
        await company.order("s-1")
        async with asyncio.timeout(SECONDS_MAX):
            while (await company.last_states()).get("s-1.1") != "SUSPEND":
                await asyncio.sleep(0.02)
        (tmp_path / "outside" / "down").unlink()

        done = await person.supervisor("restore")
        again = await person.supervisor("restore", "--json")
        states = [step.state_to for step in await company.transitions() if step.session == "s-1.1"]

    came_from = states[states.index("SUSPEND") - 1]
    assert (done.code, done.err) == (0, "")
    assert done.out == f"coder.coder-1: s-1.1 returned to {came_from}, 1 effect repeated\n"
    assert (again.code, again.data["generation"], again.data["sessions"]) == (0, 0, [])


async def test_nobody_is_restored_while_an_api_is_not_healthy(person: Person, project_bus: Bus) -> None:
    await suspend(project_bus)
    await be_there(project_bus, "coder.coder-1", playing("s-1.1", "SUSPEND"))
    (person.folder / "sick_samples.py").write_text(SICK)
    probes = {"CALLBOARD_HEALTH_PROBES": "sick_samples:SICK"}

    done = await person.supervisor("restore", environ=probes)
    as_data = await person.supervisor("restore", "--json", environ=probes)

    assert (done.code, done.out) == (4, "")
    assert "supervisor: model is not healthy: 529 \\x1b[2Joverloaded" in done.err
    assert (as_data.code, as_data.data["generation"]) == (4, 0)
    assert [(each["name"], each["healthy"]) for each in as_data.data["health"]["services"]] == [
        ("broker", True),
        ("model", False),
    ]
    assert await project_bus.control.generation() == 0


async def test_a_session_whose_actor_is_down_is_restored_when_it_is_back(person: Person, project_bus: Bus) -> None:
    await suspend(project_bus)
    hosted = b'{"session":"s-1.1","story":"s-1","ack_subject":"$JS.ACK.x"}'
    await project_bus.board.put("actors.coder.coder-1", hosted)

    done = await person.supervisor("restore")

    assert (done.code, done.out, done.err) == (0, "coder.coder-1: s-1.1 is restored when its actor is back\n", "")
    assert await project_bus.control.generation() == 1


async def test_who_does_not_return_in_time_is_said_so(person: Person, project_bus: Bus) -> None:
    await suspend(project_bus)
    await be_there(project_bus, "coder.coder-1", playing("s-1.1", "SUSPEND"))

    done = await person.supervisor("restore")

    assert (done.code, done.out) == (1, "")
    assert done.err == "supervisor: coder.coder-1: s-1.1 has not returned yet; `supervisor why s-1.1` says more\n"


async def test_a_probe_that_is_not_there_is_a_wrong_setting(person: Person) -> None:
    done = await person.supervisor("restore", environ={"CALLBOARD_HEALTH_PROBES": "nowhere_samples:X"})

    assert (done.code, done.out) == (2, "")
    assert "nowhere_samples" in done.err
