"""Letters of a supervisor: no two have one id, whoever of it writes them."""

from datetime import UTC, datetime
from typing import Any, cast

from actors.runtime.world import RealWorld
from protocol.marks import parse_message_id
from protocol.messages import Restore
from supervisors.office import Office


def a_world() -> RealWorld:
    return RealWorld(cast(Any, None))  # letters need no bus


def test_a_letter_says_from_whom_it_is_and_when_it_was_written() -> None:
    world = a_world()
    before = datetime.now(UTC)

    letter = Office(world).letter(Restore(), "all.all", "CONTROL")

    assert (letter.id, letter.sender) == (f"supervisor-{world.incarnation}/1/0", "supervisor.main")
    assert (letter.kind, letter.recipient, letter.payload) == ("CONTROL", "all.all", Restore())
    assert before <= letter.sent_at <= datetime.now(UTC)
    assert parse_message_id(letter.id)[0] == f"supervisor-{world.incarnation}"


def test_no_two_letters_have_one_id_whichever_process_has_written_them() -> None:
    offices = [Office(a_world()), Office(a_world())]

    ids = [office.letter(Restore(), "all.all", "CONTROL").id for office in offices for _ in range(2)]

    assert len(set(ids)) == len(ids)
    assert [each.split("/", 1)[1] for each in ids] == ["1/0", "2/0", "1/0", "2/0"]
