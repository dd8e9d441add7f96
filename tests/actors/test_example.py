"""The example of the documents does what it says."""

from typing import Any

from actors.core.effects import AskPerson
from actors.core.results import PersonAnswered
from examples.greeter import GREETER, Greet, Greeted
from protocol.messages import SpecUpload
from tests.actors.plays import Play, received


def greeting(answer: str) -> Play:
    play = Play(GREETER.behaviour, "todo")
    play.happen(received(SpecUpload(spec="todo", revision=1), inbox="spec"))
    play.finish(AskPerson, PersonAnswered(answer=answer))
    return play


def test_a_spec_is_greeted_when_the_person_agrees() -> None:
    play = greeting("yes")
    assert play.open(Greet).whom == "todo"

    play.finish(Greet, Greeted(text="hello todo"))

    assert play.states == ["SUBMITTING", "WAITING"]
    assert play.session.open == {}


def test_it_comes_to_error_and_out_of_it_when_the_person_does_not() -> None:
    play = greeting("no")

    assert play.states[-2:] == ["ERROR", "WAITING"]
    causes: list[Any] = [step.cause for step in play.steps if step.cause]
    assert [cause.kind for cause in causes] == ["abandoned"] * len(causes)


async def test_its_executor_greets() -> None:
    executor = GREETER.executors(None)[Greet]  # type: ignore[arg-type]  # it needs no world

    assert await executor(Greet(whom="todo")) == Greeted(text="hello todo")
