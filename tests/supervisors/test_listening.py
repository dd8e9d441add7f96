"""`supervisor up --detach` listens to the supervisor that it has started, until it is known what became of it."""

import os

import msgspec
import pytest

from supervisors.cli.audience import Announcer
from supervisors.cli.up import listen
from supervisors.core.standing import Standing
from tests.supervisors.scenery import SUPERVISORS, a_child, a_standing

LONG_SECONDS = 30.0
ROOT = SUPERVISORS[0]
UP = a_standing(a_child("pm"))
GAVE_UP = a_standing(
    a_child("pm", phase="down", last_way="crash", last_reason="killed by SIGKILL"),
    supervisors=(msgspec.structs.replace(ROOT, phase="over"),),
    closing=True,
)
CUT_OFF = a_standing(a_child("pm", phase="down", last_way="cut_off", last_reason="fenced"))


def heard(seconds: float, *standings: Standing, is_left_open: bool = False) -> str:
    reading, writing = os.pipe()
    announcer = Announcer(writing)
    for standing in standings:
        announcer.show(standing)
    if not is_left_open:
        announcer.close()
    try:
        return listen(reading, seconds)
    finally:
        announcer.close()


@pytest.mark.parametrize(
    ("standings", "start"),
    [((CUT_OFF, UP), "up"), ((CUT_OFF, GAVE_UP), "gave_up"), ((CUT_OFF,), "ended"), ((), "ended")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_its_last_word_is_what_became_of_the_start(
    standings: tuple[Standing, ...], start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert heard(LONG_SECONDS, *standings) == start
    assert ("pm has ended (cut_off): fenced\n" in capsys.readouterr().err) == bool(standings)


def test_it_is_not_waited_for_for_ever() -> None:
    assert heard(0.0, CUT_OFF, is_left_open=True) == "late"


def test_a_sentence_of_any_length_arrives_whole(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    announcer = Announcer(writing)
    announcer.say("x" * 50_000)
    announcer.show(UP)

    assert listen(reading, LONG_SECONDS) == "up"
    assert capsys.readouterr().err.splitlines()[0] == "x" * 50_000
