"""Conversations: what is said in them, and how they are read back from a journal. Pure.

A conversation is the turns of one session that its records hold: what the user's side says stands in the effects that
ask the model, what the model says in the events with its answers. Nothing else is kept of it, so what was sent is what
is sent again, to the byte, whichever process does so.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from actors.thinking.effects import AskModel, ModelAnswered, Opening, ToolCall
from protocol.codec import encode
from protocol.record import Record

Block = dict[str, Any]

KEPT_REASONS = frozenset({"end_turn", "tool_use", "stop_sequence", "pause_turn"})
"""How a turn can end that stays in its conversation. Every other is left out: it was cut, refused or did not fit."""


TOO_LONG = "too_long"
"""Our own reason for an answer that has no room in a record."""


class Turn(NamedTuple):
    """What the user's side said, JSON of its blocks or nothing, and what the model answered."""

    says: str
    content: str


class Conversation(NamedTuple):
    """A conversation up to its last whole turn."""

    opening: Opening
    turns: tuple[Turn, ...] = ()
    last: str = ""
    """The provider's id of its last answer."""
    model: str = ""
    """The model that was asked for it."""


def is_kept(answer: ModelAnswered) -> bool:
    """Whether an answer becomes part of its conversation."""
    return answer.stop_reason in KEPT_REASONS


def with_turn(conversation: Conversation, asked: AskModel, answer: ModelAnswered) -> Conversation:
    """The conversation after an answer; unchanged by one that is not kept."""
    if not is_kept(answer):
        return conversation
    turns = (*conversation.turns, Turn(asked.says, answer.content))
    return conversation._replace(turns=turns, last=answer.message, model=answer.asked_model)


# What is said.


def render(*blocks: Block) -> str:
    """Blocks of content as they are recorded."""
    return encode(blocks).decode()


def recorded_bytes(text: str) -> int:
    """How much of a record a text takes that is part of what is said: there it is JSON in JSON."""
    return len(encode(encode(text).decode()))


def text_block(text: str) -> Block:
    """A text; the API takes none that is empty."""
    return {"type": "text", "text": text if text.strip() else "(nothing)"}


def result_block(call: str, output: str, *, is_error: bool = False) -> Block:
    """What came of a call of a tool."""
    block: Block = {"type": "tool_result", "tool_use_id": call, "content": output if output.strip() else "(no output)"}
    return block | {"is_error": True} if is_error else block


def render_tools(tools: Iterable[tuple[str, str, dict[str, Any]]]) -> str:
    """Tools (name, description, schema of the input) in an order that does not depend on where they come from."""
    return encode(
        [
            {"name": name, "description": description, "input_schema": schema}
            for name, description, schema in sorted(tools, key=lambda tool: tool[0])
        ]
    ).decode()


# What was said.


def calls_in(content: str) -> tuple[ToolCall, ...]:
    """The calls of tools in an answer."""
    return tuple(
        ToolCall(id=block["id"], name=block["name"], input=_input(block["input"]))
        for block in blocks_of(content)
        if block.get("type") == "tool_use"
    )


def _input(given: Any) -> str:
    return json.dumps(given, sort_keys=True, ensure_ascii=False)


def text_in(content: str) -> str:
    """What an answer says in words."""
    return "\n".join(block["text"] for block in blocks_of(content) if block.get("type") == "text")


def blocks_of(content: str) -> list[Block]:
    """The blocks of recorded content; an order of keys is kept, and numbers stay as they were written."""
    blocks: list[Block] = json.loads(content) if content else []
    return blocks


# Reading it back.


class _Effect(msgspec.Struct, frozen=True, kw_only=True):
    effect: str


class _Result(msgspec.Struct, frozen=True, kw_only=True):
    result: str


class _Event(msgspec.Struct, frozen=True, kw_only=True):
    event: str
    effect: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")


_effect = msgspec.json.Decoder(_Effect)
_ask = msgspec.json.Decoder(AskModel)
_event = msgspec.json.Decoder(_Event)
_result = msgspec.json.Decoder(_Result)
_answer = msgspec.json.Decoder(ModelAnswered)
_TAG = "ask_model"
_ANSWERED = "model_answered"


def read_back(records: Iterable[Record], name: str) -> Conversation | None:
    """The conversation of a name, from the records of its session; None if they do not have its beginning.

    An effect that was never answered was followed by one that says the same and more: what it said is not told twice.
    """
    asked: dict[str, AskModel] = {}
    answers: dict[str, ModelAnswered] = {}
    for record in records:
        for ask in _asks_in(record):
            if name in (ask.conversation, ask.id):
                asked[ask.id] = ask
        answer = _answer_in(record)
        if answer is not None and answer[0] in asked:
            answers.setdefault(*answer)  # one that came while the session was suspended is recorded twice
    beginning = asked.get(name)
    if beginning is None or beginning.opening is None:
        return None
    conversation = Conversation(beginning.opening)
    for identifier, ask in asked.items():
        if identifier in answers:
            conversation = with_turn(conversation, ask, answers[identifier])
    return conversation


def _asks_in(record: Record) -> Iterable[AskModel]:
    return (_ask.decode(raw) for raw in record.effects if _effect.decode(raw).effect == _TAG)


def _answer_in(record: Record) -> tuple[str, ModelAnswered] | None:
    event = _event.decode(record.event)
    if event.event != "finished" or _result.decode(event.result).result != _ANSWERED:
        return None
    return event.effect, _answer.decode(event.result)
