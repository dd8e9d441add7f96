"""A part says at once what is wrong with it."""

from typing import Any

import msgspec
import pytest

from actors.errors import NoPartError
from actors.finding import find_part
from actors.hosting.part import Part
from tests.actors.understudies.coder import CODER
from tests.actors.understudies.pm import PM


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hosting": "lots"}, "one of one, each, many"),
        ({"hosting": "many"}, "needs a route"),
        ({"behaviour": msgspec.structs.replace(PM, role="coder")}, "the role of pm is not coder"),
        ({"behaviour": msgspec.structs.replace(PM, initial={"state": "WAITING"})}, "no struct"),
        ({"behaviour": msgspec.structs.replace(PM, initial=CODER.initial.__class__(state="CODING"))}, "state of pm"),
    ],
)
def test_a_part_that_cannot_be_played_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Part(**{"behaviour": PM, "hosting": "one", "executors": lambda _: {}, **changes})


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("mine", "write MODULE:NAME"),
        ("mine:", "write MODULE:NAME"),
        ("no_such_module:CODER", "ModuleNotFoundError"),
        ("json:nothing", "has no attribute"),
        ("json:dumps", "is a function, no Part"),
        ("tests.actors.understudies.coder:CODER", "is a Behaviour, no Part"),
    ],
)
def test_a_place_where_there_is_no_part_says_why(place: str, reason: str) -> None:
    with pytest.raises(NoPartError, match=reason):
        find_part("coder", place)
