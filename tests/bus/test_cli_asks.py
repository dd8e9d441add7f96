"""`bus asks` and `bus answer`: what waits for a person, answered once and only with what was offered."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from bus.asks import Ask
from bus.bus import Bus
from bus.cli.asks import ANSWER_BYTES_MAX
from tests.bus.command import NOWHERE, Done, Person

OPEN = Ask(id="pm.main.7.0", question="Which database?", asked_at=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC))
CHOICE = Ask(
    id="coder.s-1.1.2.0",
    question="Merge\nit?",
    asked_at=datetime(2026, 1, 2, 5, 0, 0, tzinfo=timezone(timedelta(hours=1))),
    context="3 tests fail\x1b[2J\nrm -rf",
    choices=("Yes", "No, wait"),
)


@pytest.fixture
async def asking(project_bus: Bus) -> Bus:
    """A project with an ask of each kind."""
    for ask in (CHOICE, OPEN):
        await project_bus.asks.put(ask)
    return project_bus


async def answers(bus: Bus, ask: Ask) -> str:
    assert ask.id not in {one.id for one in await bus.asks.open()}
    return await bus.asks.wait(ask.id)


async def test_nothing_asked_is_said_with_the_project(person: Person, project_bus: Bus) -> None:
    listed, as_data = await person.bus("asks"), await person.bus("asks", "--json")

    assert listed == Done(code=0, out="", err=f"project {project_bus.subjects.project} asks nothing\n")
    assert as_data == Done(code=0, out="[]\n", err="")


async def test_open_asks_are_listed_oldest_first_and_can_neither_move_the_cursor_nor_pass_for_others(
    person: Person, asking: Bus
) -> None:
    listed, as_data = await person.bus("asks"), await person.bus("asks", "--json")

    assert listed.out.splitlines() == [
        "pm.main.7.0  2026-01-02T03:04:05Z",
        "    Which database?",
        "coder.s-1.1.2.0  2026-01-02T04:00:00Z",
        "    Merge",
        "    it?",
        "    choices: Yes, No, wait",
        "    3 tests fail\\x1b[2J",
        "    rm -rf",
    ]
    assert (listed.code, listed.err) == (0, f"2 open asks in project {asking.subjects.project}\n")
    assert [(ask["id"], ask["question"], ask["context"], ask["choices"]) for ask in as_data.data] == [
        (OPEN.id, OPEN.question, "", []),
        (CHOICE.id, CHOICE.question, CHOICE.context, list(CHOICE.choices)),
    ]


async def test_words_are_joined_and_the_ask_is_no_longer_open(person: Person, asking: Bus) -> None:
    done = await person.bus("answer", OPEN.id, "the", "small", "one")
    listed = await person.bus("asks", "--json")

    assert done == Done(code=0, out=f"answered {OPEN.id}: the small one\n", err="")
    assert await answers(asking, OPEN) == "the small one"
    assert [ask["id"] for ask in listed.data] == [CHOICE.id]


async def test_an_answer_is_read_from_standard_input(person: Person, asking: Bus) -> None:
    done = await person.bus("answer", OPEN.id, "-", "--json", stdin="zwei\nZeilen é\n".encode())

    assert (done.code, done.data) == (0, {"ask": OPEN.id, "answer": "zwei\nZeilen é"})
    assert await answers(asking, OPEN) == "zwei\nZeilen é"


async def test_a_choice_may_be_written_in_any_case_and_counts_as_the_ask_spells_it(person: Person, asking: Bus) -> None:
    done = await person.bus("answer", CHOICE.id, "NO,", "wait", "--json")

    assert (done.code, done.data) == (0, {"ask": CHOICE.id, "answer": "No, wait"})
    assert await answers(asking, CHOICE) == "No, wait"


async def test_what_is_no_choice_is_refused_with_the_choices(person: Person, asking: Bus) -> None:
    done = await person.bus("answer", CHOICE.id, "maybe", "--json")

    message = f"'maybe' is not among the choices of {CHOICE.id}: Yes, No, wait"
    assert (done.code, done.data) == (1, {"error": "failed", "message": message})
    assert done.err == f"bus: {message}\n"
    assert len(await asking.asks.open()) == 2


@pytest.mark.parametrize("again", ["Yes", "no, wait", "maybe"])
async def test_the_first_answer_stands(person: Person, asking: Bus, again: str) -> None:
    await person.bus("answer", CHOICE.id, "yes")

    done = await person.bus("answer", CHOICE.id, again)

    assert done == Done(code=1, out="", err=f"bus: ask {CHOICE.id} is closed; its answer was: Yes\n")
    assert await answers(asking, CHOICE) == "Yes"


@pytest.mark.parametrize("identifier", ["pm.main.9.0", "pm main", "pm..main", "*", "\x1b[2J"])
async def test_an_ask_that_nobody_asked_is_said_to_be_none(person: Person, asking: Bus, identifier: str) -> None:
    done = await person.bus("answer", identifier, "yes")

    shown = identifier.replace("\x1b", "\\x1b")
    reason = f"there is no ask {shown}, or it was withdrawn: `bus asks` lists the open ones"
    assert done == Done(code=1, out="", err=f"bus: {reason}\n")
    assert len(await asking.asks.open()) == 2


async def test_a_withdrawn_ask_is_neither_listed_nor_answered(person: Person, asking: Bus) -> None:
    await asking.asks.withdraw(OPEN.id)

    listed, done = await person.bus("asks", "--json"), await person.bus("answer", OPEN.id, "yes")

    assert [ask["id"] for ask in listed.data] == [CHOICE.id]
    reason = f"there is no ask {OPEN.id}, or it was withdrawn: `bus asks` lists the open ones"
    assert done == Done(code=1, out="", err=f"bus: {reason}\n")


@pytest.mark.parametrize(
    ("stdin", "reason"),
    [
        (b"", "the answer is empty"),
        (b" \n", "the answer is empty"),
        (b"\xff", "the answer is not UTF-8 text"),
        (b"x" * (ANSWER_BYTES_MAX + 1), "the answer is larger than 65,536 bytes"),
    ],
    ids=["nothing", "blank", "noise", "large"],
)
async def test_what_is_no_answer_is_refused_before_anybody_is_asked(person: Person, stdin: bytes, reason: str) -> None:
    done = await person.bus("answer", OPEN.id, "-", stdin=stdin, environ={"NATS_URL": NOWHERE})

    assert done == Done(code=2, out="", err=f"bus: {reason}: nothing was answered\n")


async def test_the_largest_answer_with_its_newline_is_taken(person: Person, asking: Bus) -> None:
    done = await person.bus("answer", OPEN.id, "-", stdin=b"x" * ANSWER_BYTES_MAX + b"\n")

    assert done.code == 0
    assert await answers(asking, OPEN) == "x" * ANSWER_BYTES_MAX
