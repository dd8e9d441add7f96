"""What is large, and what changes in the middle: a session that thinks goes on with all of it."""

import json
from collections.abc import Sequence

import msgspec
import pytest

from actors.rehearsal.parts import Answer, Call, Cue, Part
from tests.thinking.company import answers
from tests.thinking.stage import Hasty, Stage


def edits(text: str, *calls: Call) -> Sequence[Part]:
    """A coder's part that writes a text, perhaps looks at it, and is done."""
    looks = (Cue(turns=2, says=Answer(calls=calls)),) if calls else ()
    return (
        Cue(turns=0, says=Answer(calls=(Call("submit_plan"),))),
        Cue(turns=1, says=Answer(calls=(Call("edit", {"text": text}),))),
        *looks,
        Cue(says=Answer(calls=(Call("done"),))),
    )


READS = (Call("read"), Call("read", {"text": "b"}))


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("世" * 31_000, ()),
        ('{"a":"b"},\n' * 3000, ()),
        ("a b c\n" * 12_000, ()),
        ("世" * 27_000, READS),
        ('"' * 25_000, READS),
        ("\x01" * 8_000, READS),
    ],
    ids=["wide", "json", "lines", "wide twice", "quotes twice", "controls twice"],
)
async def test_a_large_file_is_written_and_read(text: str, calls: tuple[Call, ...]) -> None:
    async with Stage.set(parts=edits(text, *calls)) as stage:
        stage.profile = msgspec.structs.replace(stage.profile, max_tokens=64_000)
        await stage.play(Hasty(stage.bus))

        records = await stage.records()
        assert records[-1].state_to == "DONE", failing(records[-1].after)
        assert all(answer["stop_reason"] == "tool_use" for answer in answers(records))


async def test_an_answer_that_no_record_can_hold_is_asked_for_in_smaller_steps_and_never_run() -> None:
    huge = "世" * 60_000
    parts = (
        Cue(turns=0, says=Answer(calls=(Call("submit_plan"),))),
        Cue(after="in smaller steps", says=Answer(calls=(Call("edit", {"text": "a little"}),))),
        Cue(turns=1, says=Answer(calls=(Call("edit", {"text": huge}),))),
        Cue(says=Answer(calls=(Call("done"),))),
    )
    async with Stage.set(parts=parts) as stage:
        stage.profile = msgspec.structs.replace(stage.profile, max_tokens=128_000)
        await stage.play(Hasty(stage.bus))

        records = await stage.records()
        assert records[-1].state_to == "DONE", failing(records[-1].after)
        assert [answer["stop_reason"] for answer in answers(records)][1:3] == ["too_long", "tool_use"]
        assert stage.written == ["a little"]


async def test_a_conversation_begins_anew_with_another_model() -> None:
    async with Stage.set() as stage:

        class Deciding(Hasty):
            """Somebody names another model when the second answer has come."""

            async def boundary(self, name: str) -> None:
                if name == "effect.after" and len(stage.model.calls) == 2:
                    stage.profile = msgspec.structs.replace(stage.profile, model="claude-opus-5-5")

        await stage.play(Deciding(stage.bus))

        records = await stage.records()
        told = answers(records)
        assert records[-1].state_to == "DONE", failing(records[-1].after)
        assert len({answer["conversation"] for answer in told}) == 2
        assert [answer["asked_model"] for answer in told][1:3] == ["claude-sonnet-5-5", "claude-opus-5-5"]


def failing(after: msgspec.Raw) -> object:
    return json.loads(bytes(after)).get("failing")
