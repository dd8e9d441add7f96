"""Messages: their blocks, who speaks when, and that every call has its result. Pure."""

import re
from typing import Any

from actors.rehearsal import seals
from actors.rehearsal.checking.caching import CACHED
from actors.rehearsal.checking.shapes import (
    Kind,
    a_boolean,
    a_list,
    a_text,
    an_object,
    anything,
    below,
    each,
    has_fields,
    or_null,
    refuse,
)
from actors.rehearsal.errors import RefusedError
from actors.rehearsal.models import Model
from actors.rehearsal.prompt import Json, Prompt, Turn

MESSAGES_MAX = 100_000
ROLES = ("user", "assistant", "system")
_ID = re.compile(r"[a-zA-Z0-9_-]+")


def _an_id(place: str, value: Any) -> None:
    a_text(place, value)
    if not _ID.fullmatch(value):
        refuse(place, "String should match pattern '^[a-zA-Z0-9_-]+$'")


def _some_text(place: str, value: Any) -> None:
    a_text(place, value)
    if not value:
        raise RefusedError("messages: text content blocks must be non-empty")
    if not value.strip():
        raise RefusedError("messages: text content blocks must contain non-whitespace text")


def _a_result(place: str, value: Any) -> None:
    if not isinstance(value, str):
        each(_a_block_of(_IN_RESULTS))(place, value)


_TEXT: tuple[dict[str, Kind], dict[str, Kind]] = ({"text": _some_text}, {"citations": or_null(a_list), **CACHED})
_MEDIA: tuple[dict[str, Kind], dict[str, Kind]] = (
    {"source": an_object},
    {"title": or_null(a_text), "context": or_null(a_text), "citations": or_null(an_object), **CACHED},
)
_IN_RESULTS = {"text": _TEXT, "image": _MEDIA, "document": _MEDIA}
_BY_USER = _IN_RESULTS | {
    "tool_result": (
        {"tool_use_id": _an_id},
        {"content": _a_result, "is_error": a_boolean, "toolset_name": or_null(a_text), **CACHED},
    ),
}
_CALL: tuple[dict[str, Kind], dict[str, Kind]] = (
    {"id": _an_id, "name": a_text, "input": an_object},
    {"caller": or_null(an_object), "toolset_name": or_null(a_text), **CACHED},
)
_BY_ASSISTANT = {
    "text": _TEXT,
    "thinking": ({"thinking": a_text, "signature": a_text}, {}),
    "redacted_thinking": ({"data": a_text}, {}),
    "tool_use": _CALL,
    "server_tool_use": _CALL,
}
_BLOCKS = {"user": _BY_USER, "assistant": _BY_ASSISTANT, "system": {"text": _TEXT}}


def _a_block_of(kinds: Any) -> Kind:
    def check(place: str, value: Any) -> None:
        an_object(place, value)
        if "type" not in value:
            refuse(f"{place}.type", "Field required")
        kind = value["type"]
        if not isinstance(kind, str) or kind not in kinds:
            expected = ", ".join(repr(name) for name in kinds)
            refuse(place, f"Input tag {kind!r} found using 'type' does not match any of the expected tags: {expected}")
        required, optional = kinds[kind]
        has_fields(f"{place}.{kind}", value, {"type": anything, **required}, optional)

    return check


def a_system(place: str, value: Any) -> None:
    """The system prompt, a text or blocks of text."""
    if isinstance(value, str):
        return
    a_list(place, value)
    for index, block in enumerate(value):
        _a_block_of({"text": ({"text": a_text}, _TEXT[1])})(below(place, index), block)
        if not block["text"]:
            raise RefusedError("system: text content blocks must be non-empty")


def a_message(place: str, value: Any) -> None:
    """One message of anybody."""
    an_object(place, value)
    has_fields(place, value, {"role": a_text, "content": anything}, {})
    if value["role"] not in ROLES:
        refuse(f"{place}.role", "Input should be 'user', 'assistant' or 'system'")
    if isinstance(value["content"], str):
        if value["content"]:
            _some_text(place, value["content"])
        return
    each(_a_block_of(_BLOCKS[value["role"]]))(f"{place}.content", value["content"])


def check_turns(prompt: Prompt, model: Model) -> None:
    """Refuse an order in which nobody can speak, and calls and results that do not belong together."""
    turns = prompt.turns
    if not turns:
        raise RefusedError("messages: at least one message is required")
    if len(turns) > MESSAGES_MAX:
        raise RefusedError(f"messages: too many messages, at most {MESSAGES_MAX} are allowed")
    if turns[0].role != "user":
        raise RefusedError('messages: first message must use the "user" role')
    for index, turn in enumerate(turns):
        _check_content(index, turn, is_last=index == len(turns) - 1)
        if turn.role == "system":
            _check_system(index, turns, model)
    _check_pairs(turns)
    if any(block["type"] in ("tool_use", "tool_result") for turn in turns for block in turn.blocks):
        _need_tools(prompt)
    if turns[-1].role == "assistant" and not _is_paused(turns[-1]):
        raise RefusedError(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )


def _check_content(index: int, turn: Turn, *, is_last: bool) -> None:
    is_empty = not turn.blocks or any(block["type"] == "text" and not block["text"] for block in turn.blocks)
    if is_empty and not (is_last and turn.role == "assistant"):
        raise RefusedError(
            f"messages.{index}: all messages must have non-empty content "
            "except for the optional final assistant message"
        )


def _check_system(index: int, turns: tuple[Turn, ...], model: Model) -> None:
    if not model.hears_system_messages:
        refuse(f"messages.{index}.role", "Input should be 'user' or 'assistant'")
    if turns[index - 1].role == "assistant":
        refuse(f"messages.{index}", "a `system` message must follow a `user` message")


def _check_pairs(turns: tuple[Turn, ...]) -> None:
    seen: set[str] = set()
    for index, turn in enumerate(turns):
        called = [block["id"] for block in turn.blocks if block["type"] == "tool_use"]
        for identifier in called:
            if identifier in seen:
                refuse("messages", "`tool_use` ids must be unique")
            seen.add(identifier)
        results = _results_at(turns, index + 1)
        missing = [identifier for identifier in called if identifier not in results]
        if missing:
            raise RefusedError(
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        _check_results(turns, index)


def _check_results(turns: tuple[Turn, ...], index: int) -> None:
    expected = {block["id"] for block in turns[index - 1].blocks if block["type"] == "tool_use"} if index else set()
    answered: set[str] = set()
    text_at = None
    for place, block in enumerate(turns[index].blocks):
        if block["type"] != "tool_result":
            text_at = place
            continue
        identifier = block["tool_use_id"]
        where = f"messages.{index}.content.{place}"
        if identifier not in expected:
            refuse(
                where,
                f"unexpected `tool_use_id` found in `tool_result` blocks: {identifier}. Each `tool_result` block must "
                "have a corresponding `tool_use` block in the previous message.",
            )
        if identifier in answered:
            refuse(
                where,
                f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {identifier}",
            )
        if text_at is not None:
            refuse(where, "`tool_result` blocks must come first in the message, before any other content")
        answered.add(identifier)


def _results_at(turns: tuple[Turn, ...], index: int) -> set[str]:
    blocks: tuple[Json, ...] = turns[index].blocks if index < len(turns) else ()
    return {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}


def _need_tools(prompt: Prompt) -> None:
    if not prompt.tools:
        raise RefusedError("Requests which include `tool_use` or `tool_result` blocks must define tools")


def _is_paused(turn: Turn) -> bool:
    return any(block["type"] == "server_tool_use" and seals.is_pause(block["id"]) for block in turn.blocks)
