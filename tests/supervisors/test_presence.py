"""Who is there, and what they say of themselves."""

from bus.bus import Bus
from supervisors.presence import suspensions
from tests.supervisors.scenery import AT, be_there, playing


async def test_sessions_of_one_name_are_two_where_two_machines_play_them(project_bus: Bus) -> None:
    await be_there(project_bus, "pm.main", playing("main", "SUSPEND"), playing("talk", "DRAFTING"))
    await be_there(project_bus, "architect.main", playing("main", "SUSPEND"))

    assert await suspensions(project_bus) == {"architect.main": AT, "pm.main": AT}
