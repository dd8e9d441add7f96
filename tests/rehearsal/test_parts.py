"""Cues and scenes: what a part can tell conversations apart by."""

from typing import Any

import pytest

from actors.rehearsal import Answer, Call, Cue, Part, Returned, Scene, ToolResult
from actors.rehearsal.errors import BadPartError, NoCueError
from actors.rehearsal.parts import perform
from actors.rehearsal.prompt import read_prompt
from actors.rehearsal.scene import read_scene
from tests.rehearsal.company import OTHER, TOOL, Body, ask, assistant, call, result, text, user

MARK = "callboard: role=coder story=s-1 session=s-1.1 state=CODING"
YES = Answer(text="yes")


def scene(*messages: Body, **more: Any) -> Scene:
    return read_scene(read_prompt(ask(tools=[TOOL], **more) | {"messages": [*messages]}))


def returned(text: str = "2 passed", **more: Any) -> Scene:
    return scene(user("go"), assistant(call()), user(result(content=text, **more)), system=MARK)


def test_who_speaks_is_read_from_the_last_line_that_says_it() -> None:
    found = scene(
        user(f"hello\n{MARK}"),
        assistant("callboard: role=assistant"),
        user("callboard: state=TESTING"),
        system="You are\ncallboard: role=pm story=s-2",
        metadata={"user_id": "callboard: model=x role=architect session=s-2.1"},
    )

    assert (found.role, found.story, found.session, found.state) == ("coder", "s-1", "s-1.1", "TESTING")


def test_what_a_tool_returns_says_nobody_who_speaks() -> None:
    assert returned("callboard: role=pm").role == "coder"


def test_what_was_said_is_without_the_line() -> None:
    assert scene(user(f"hello\n{MARK}")).text == "hello"


def test_results_know_their_calls_and_come_in_order() -> None:
    found = scene(
        user("go"),
        assistant(call("toolu_1", input={"command": "a"}), call("toolu_2", name="read", input={"command": "b"})),
        user(result("toolu_2", [text("B"), text("b")], is_error=True), result("toolu_1", "A"), text("and?")),
        {"role": "system", "content": "callboard: state=TESTING"},
    )

    assert found.results == (
        ToolResult(id="toolu_2", name="read", input={"command": "b"}, text="B\nb", is_error=True),
        ToolResult(id="toolu_1", name="run", input={"command": "a"}, text="A"),
    )
    assert (found.text, found.state, found.turns) == ("and?", "TESTING", 1)
    assert found.last("read") == found.results[0]
    assert found.last("write") is None


def test_earlier_results_are_history() -> None:
    found = scene(user("go"), assistant(call()), user(result()), assistant("Done."), user("Well."))

    assert found.results == ()
    assert [each.text for each in found.history] == ["fine"]


@pytest.mark.parametrize(
    ("cue", "fits"),
    [
        ({}, True),
        ({"role": "coder"}, True),
        ({"role": "pm"}, False),
        ({"state": "CODING", "story": "s-1", "session": "s-1.1"}, True),
        ({"state": "TESTING"}, False),
        ({"story": "s-2"}, False),
        ({"session": "s-1.2"}, False),
        ({"model": "claude-sonnet-5-5"}, True),
        ({"model": "claude-opus-5-5"}, False),
        ({"turns": 1}, True),
        ({"turns": 0}, False),
        ({"after": "passed"}, False),
        ({"after": Returned()}, True),
        ({"after": Returned(tool="run", text=r"^\d passed", is_error=False, input={"command": "ls"})}, True),
        ({"after": Returned(tool="read")}, False),
        ({"after": Returned(text="failed")}, False),
        ({"after": Returned(is_error=True)}, False),
        ({"after": Returned(input={"command": "rm"})}, False),
        ({"after": Returned(input={"other": None})}, False),
    ],
)
def test_a_cue_fits_by_all_that_it_names(cue: dict[str, Any], fits: bool) -> None:
    assert Cue(says=YES, **cue)(returned()) == (YES if fits else None)


def test_a_pattern_is_looked_for_in_what_was_just_said() -> None:
    assert Cue(after="^hel+o", says=YES)(scene(user("hello"))) == YES
    assert Cue(after="^hel+o", says=YES)(scene(user("hello"), assistant("x"), user("y"))) is None


def test_the_first_that_has_an_answer_gives_it() -> None:
    prompt = read_prompt(ask("hello"))
    parts: list[Part] = [Cue(role="pm", says=YES), lambda scene: None, Cue(says=lambda scene: Answer(text=scene.text))]

    assert perform(parts, prompt, read_scene(prompt)) == Answer(text="hello")
    with pytest.raises(NoCueError, match=r"no cue for an unnamed role after 'hello' \(turn 0\)"):
        perform(parts[:2], prompt, read_scene(prompt))


def test_an_answer_of_another_kind_is_a_mistake_of_the_part() -> None:
    prompt = read_prompt(ask("hello"))
    wrong: Any = [lambda scene: "hello"]

    with pytest.raises(BadPartError, match="with a str, no Answer"):
        perform(wrong, prompt, read_scene(prompt))


@pytest.mark.parametrize(
    ("choice", "calls", "reason"),
    [
        ({"type": "none"}, ("run",), "calls a tool, and tool_choice is none"),
        ({"type": "any"}, (), "does not call what tool_choice wants"),
        ({"type": "tool", "name": "run"}, (), "does not call what tool_choice wants"),
        ({"type": "tool", "name": "run"}, ("read",), "does not call what tool_choice wants"),
        ({"type": "any"}, ("read",), ""),
        ({"type": "tool", "name": "run"}, ("run",), ""),
        ({"type": "none"}, (), ""),
        ({"type": "auto"}, ("run", "read"), ""),
    ],
)
def test_a_part_keeps_to_the_tool_choice(choice: Body, calls: tuple[str, ...], reason: str) -> None:
    prompt = read_prompt(ask("hello", tools=[TOOL, OTHER], tool_choice=choice))
    said = Answer(text="So.", calls=tuple(map(Call, calls)))

    if reason:
        with pytest.raises(BadPartError, match=reason):
            perform([Cue(says=said)], prompt, read_scene(prompt))
    else:
        assert perform([Cue(says=said)], prompt, read_scene(prompt)) == said


@pytest.mark.parametrize(
    "wrong",
    [
        {"stop_reason": "tool_use"},
        {"stop_reason": "end_turn", "calls": (Call("run"),)},
        {"stop_reason": "refusal", "category": "boredom"},
    ],
)
def test_an_answer_that_no_model_gives_is_refused_when_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadPartError):
        Answer(**wrong)
