"""Thinking: how it is asked for, and that what came back is what was thought. Pure."""

from typing import Any

from actors.rehearsal import seals
from actors.rehearsal.checking.shapes import an_integer, an_object, anything, has_fields, one_of, or_null, refuse
from actors.rehearsal.errors import RefusedError
from actors.rehearsal.models import Model
from actors.rehearsal.prompt import Json, Prompt, Turn, thinking_type

BUDGET_TOKENS_MIN = 1024
_DISPLAY = {"display": or_null(one_of("summarized", "omitted"))}
_KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "adaptive": ({}, _DISPLAY),
    "enabled": ({"budget_tokens": an_integer}, _DISPLAY),
    "disabled": ({}, {}),
    "between_tools": ({}, {}),
}


def a_thinking(place: str, value: Any) -> None:
    """How the model is to think."""
    an_object(place, value)
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        expected = ", ".join(repr(name) for name in _KINDS)
        refuse(place, f"Input tag {kind!r} found using 'type' does not match any of the expected tags: {expected}")
    required, optional = _KINDS[str(kind)]
    has_fields(f"{place}.{kind}", value, {"type": anything, **required}, optional)


def check_thinking(body: Json, model: Model) -> None:
    """Refuse a way of thinking that the model has not, and a budget without room."""
    said = body.get("thinking")
    if said is None:
        return
    kind = said["type"]
    if kind not in model.thinking_types:
        there = " or ".join(repr(f"thinking.type.{name}") for name in model.thinking_types)
        raise RefusedError(f'"thinking.type.{kind}" is not supported for this model. Use {there}.')
    if kind == "enabled":
        if said["budget_tokens"] < BUDGET_TOKENS_MIN:
            refuse("thinking.enabled.budget_tokens", f"Input should be greater than or equal to {BUDGET_TOKENS_MIN}")
        if said["budget_tokens"] >= body.get("max_tokens", said["budget_tokens"] + 1):
            raise RefusedError("`max_tokens` must be greater than `thinking.budget_tokens`.")


def check_thoughts(prompt: Prompt, model: Model) -> None:
    """Refuse thinking that was changed, is of another conversation, or is missing where the model still thinks."""
    past = seals.Past()
    for index, turn in enumerate(prompt.turns):
        for place, block in enumerate(turn.blocks):
            if block["type"] == "thinking":
                _check_thought(f"messages.{index}.content.{place}", block, past, model)
            if block["type"] == "redacted_thinking":
                refuse(f"messages.{index}.content.{place}", "Invalid `data` in `redacted_thinking` block")
            past.add(turn.role, block)
    if thinking_type(prompt.body, model.thinks_unasked) in ("adaptive", "enabled"):
        _check_live(prompt.turns)


def _check_thought(place: str, block: Json, past: seals.Past, model: Model) -> None:
    if not seals.is_genuine(block["thinking"], block["signature"]):
        refuse(place, "Invalid `signature` in `thinking` block")
    if model.binds_thinking and not seals.is_bound(block["signature"], model.id, past.digest()):
        refuse(
            place,
            "this `thinking` block was created in a different conversation, or the messages before it have changed "
            "since. Thinking blocks must be sent back in the conversation that they were created in.",
        )


def _check_live(turns: tuple[Turn, ...]) -> None:
    """In what the assistant has said since somebody last spoke to it every call has the thinking that led to it."""
    for index in range(len(turns) - 1, -1, -1):
        turn = turns[index]
        if turn.role == "user" and not any(block["type"] == "tool_result" for block in turn.blocks):
            return
        signatures: list[str] = []
        for block in turn.blocks:
            if block["type"] == "thinking":
                signatures.append(block["signature"])
            if block["type"] == "tool_use" and not seals.is_thought(block["id"], signatures):
                refuse(
                    f"messages.{index}.content.0",
                    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
                    "These blocks must remain as they were in the original response.",
                )
