"""`bus specs`: what was published, as the board has it."""

from datetime import UTC, datetime, timedelta

from bus.bus import Bus
from bus.publishing import Published
from protocol.codec import encode
from tests.bus.command import EXAMPLE, SPEC, Done, Person


async def test_no_spec_is_said_to_be_none_with_the_project(person: Person, project_bus: Bus) -> None:
    listed, as_data = await person.bus("specs"), await person.bus("specs", "--json")

    assert listed == Done(code=0, out="", err=f"no spec was published in project {project_bus.subjects.project}\n")
    assert as_data == Done(code=0, out="[]\n", err="")


async def test_a_published_spec_is_listed_with_its_latest_revision_and_its_time(
    person: Person, project_bus: Bus
) -> None:
    await person.bus("publish", str(EXAMPLE))
    revised = await person.bus("publish", "-", "--json", stdin=SPEC.replace("People who live", "All who live").encode())

    listed, as_data = await person.bus("specs"), await person.bus("specs", "--json")

    (spec,) = as_data.data
    at = datetime.fromisoformat(spec.pop("at"))
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=5)
    assert spec == {
        "id": "todo",
        "revision": 2,
        "digest": revised.data["digest"],
        "recipient": "pm.main",
        "sent": True,
    }
    assert listed.out.split() == ["todo", "revision", "2", f"{at:%Y-%m-%dT%H:%M:%SZ}"]
    assert listed.err == f"1 spec in project {project_bus.subjects.project}\n"


async def test_a_spec_whose_publisher_died_is_told_from_one_that_was_sent(person: Person, project_bus: Bus) -> None:
    claimed = Published(spec="half", revision=1, digest="d", recipient="pm.main", sent=False)
    await project_bus.board.put("specs.half", encode(claimed))

    listed, as_data = await person.bus("specs"), await person.bus("specs", "--json")

    assert listed.out.endswith("  not sent: publish it again\n")
    assert [(spec["id"], spec["sent"]) for spec in as_data.data] == [("half", False)]


async def test_what_was_taken_down_is_gone_and_what_is_no_spec_hides_no_other(person: Person, project_bus: Bus) -> None:
    await project_bus.board.put("specs.gone", b"{}")
    await project_bus.board.take_down("specs.gone")
    await project_bus.board.put("specs.noise", b"\x1b[2J\xff")
    await person.bus("publish", str(EXAMPLE))

    done = await person.bus("specs", "--json")

    assert (done.code, [spec["id"] for spec in done.data]) == (1, ["todo"])
    assert done.err == "bus: what stands on the board under specs.noise was not written by publishing\n"
