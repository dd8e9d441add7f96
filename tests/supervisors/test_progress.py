"""Which states work, who is stuck, and what is done about it."""

from datetime import datetime, timedelta

import pytest

from actors.core.effects import AskPerson
from actors.hosting.heartbeat import Heartbeat, Playing
from bus.settings.model import Supervision
from protocol.machine import SUSPEND
from protocol.machines import MACHINES
from supervisors.core.progress import ASKS_PERSON, WAITING, WORKING, Rounds, Stage, go_round
from tests.actors.plays import AT, at

POLICY = Supervision(stuck_seconds=100.0, recycle_seconds=50.0)


def beat(state: str = "CODING", records: int = 5, *, paused: bool = False, in_hand: tuple[str, ...] = ()) -> Heartbeat:
    playing = Playing(session="s-1.1", state=state, since=AT, records=records, last_event_at=AT, in_hand=in_hand)
    return Heartbeat(machine="coder", state=state, started_at=AT, sessions=(playing,), paused=paused)


def stages(*rounds: tuple[float, Heartbeat]) -> list[tuple[float, Stage]]:
    """What is to be done, and when, in rounds at these times."""
    known, done = Rounds(), []
    for seconds, each in rounds:
        known, changed = go_round(known, {"coder.coder-1": each}, POLICY, at(seconds))
        done += [(seconds, suspect.stage) for suspect in changed]
    return done


@pytest.mark.parametrize(
    ("machine", "state"),
    [(machine.name, state) for machine in MACHINES.values() for state in (*machine.states, SUSPEND)],
)
def test_every_state_of_every_machine_either_works_or_waits(machine: str, state: str) -> None:
    assert (state in WORKING) != (state in WAITING)


def test_no_state_is_named_that_no_machine_has() -> None:
    assert {state for machine in MACHINES.values() for state in machine.states} | {SUSPEND} == WORKING | WAITING


def test_one_who_works_is_reported_once_then_recycled_and_then_its_process_is_ended() -> None:
    rounds = [(float(seconds), beat()) for seconds in range(0, 1000, 10)]

    assert stages(*rounds) == [(100, "reported"), (150, "recycled"), (200, "restarted")]


def test_a_suspect_says_how_long_nothing_was_recorded() -> None:
    _, (suspect,) = go_round(Rounds(), {"coder.coder-1": beat()}, POLICY, at(130))

    assert (suspect.machine, suspect.session, suspect.state, suspect.records) == ("coder", "s-1.1", "CODING", 5)
    assert (suspect.since, suspect.at) == (AT, at(130))


def test_whoever_was_not_looked_at_for_long_is_reported_first_all_the_same() -> None:
    assert stages((10_000, beat()), (10_010, beat()), (10_050, beat())) == [(10_000, "reported"), (10_050, "recycled")]


def test_a_record_makes_an_end_of_all_suspicion() -> None:
    assert stages((100, beat()), (140, beat(records=6)), (150, beat(records=6))) == [
        (100, "reported"),
        (140, "reported"),
    ]


@pytest.mark.parametrize("state", sorted(WAITING))
def test_one_who_waits_for_somebody_else_is_never_stuck(state: str) -> None:
    assert stages((10_000, beat(state)), (20_000, beat(state))) == []


def test_one_who_waits_for_a_person_is_not_stuck() -> None:
    assert AskPerson(question="?").__struct_config__.tag == ASKS_PERSON
    assert stages((10_000, beat(in_hand=(ASKS_PERSON, "think")))) == []


def test_the_brake_stops_the_clock() -> None:
    rounds = [(50, beat()), (1000, beat(paused=True)), (1010, beat()), (1099, beat()), (1100, beat())]

    assert stages(*rounds) == [(1100, "reported")]


def test_one_whose_process_has_not_recorded_anything_yet_is_measured_from_its_start() -> None:
    started: datetime = AT + timedelta(seconds=500)
    playing = Playing(session="s-1.1", state="CODING", since=AT, records=5)
    fresh = Heartbeat(machine="coder", state="CODING", started_at=started, sessions=(playing,))

    assert stages((599, fresh), (600, fresh)) == [(600, "reported")]


def test_one_who_is_no_longer_seen_is_forgotten() -> None:
    known, _ = go_round(Rounds(), {"coder.coder-1": beat()}, POLICY, at(100))

    assert go_round(known, {}, POLICY, at(110)) == (Rounds(), ())
