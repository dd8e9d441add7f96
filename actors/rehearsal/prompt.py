"""What a request asks the model: one view of its body for everybody who reads it. Pure.

A text is one block, however it was written; what is not part of the prompt (`cache_control`, a field that is null)
is left out of every comparison.
"""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

Json = dict[str, Any]
Section = Literal["tools", "system", "messages"]
FREE_FORM = frozenset({"input", "input_schema"})
"""Fields whose own keys are the client's: their order reaches the model, so another order is another prompt."""


class Turn(msgspec.Struct, frozen=True):
    """One message."""

    role: str
    blocks: tuple[Json, ...]


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """The prompt of a request, in the order in which the model reads it."""

    model: str
    tools: tuple[Json, ...]
    system: tuple[Json, ...]
    turns: tuple[Turn, ...]
    body: Json
    """All of the request, for what is no text of the prompt."""

    def blocks(self) -> Iterator[tuple[Section, str, Json]]:
        """Every block with its section and, in a message, its role."""
        for tool in self.tools:
            yield "tools", "", tool
        for block in self.system:
            yield "system", "", block
        for turn in self.turns:
            for block in turn.blocks:
                yield "messages", turn.role, block

    def system_text(self) -> str:
        """The system prompt as one text."""
        return "\n".join(block["text"] for block in self.system)


def read_prompt(body: Json) -> Prompt:
    """The view of a body that was checked."""
    return Prompt(
        model=body["model"],
        tools=tuple(body.get("tools") or ()),
        system=as_blocks(body.get("system") or ()),
        turns=tuple(Turn(each["role"], as_blocks(each["content"])) for each in body["messages"]),
        body=body,
    )


def as_blocks(content: Any) -> tuple[Json, ...]:
    """Content as blocks, also where it was written as one text."""
    return ({"type": "text", "text": content},) if isinstance(content, str) else tuple(content)


def canonical(block: Json) -> bytes:
    """The bytes by which two blocks are the same to the model."""
    return msgspec.json.encode(_plain(block))


def _plain(block: Json) -> Json:
    kept = sorted(name for name, value in block.items() if value is not None and name != "cache_control")
    return {name: _value(name, block[name]) for name in kept}


def _value(name: str, value: Any) -> Any:
    if name in FREE_FORM:
        return value
    if name == "content" and isinstance(value, str | list):
        return [_plain(each) for each in as_blocks(value)]
    return _plain(value) if isinstance(value, dict) else value


def text_of(content: Any) -> str:
    """All text in a content, a text or blocks."""
    return "\n".join(block.get("text", "") for block in as_blocks(content or ()) if block.get("type") == "text")


def thinking_type(body: Json, thinks_unasked: bool) -> str:
    """Whether and how a request has the model think, also where it does not say."""
    said: Any = body.get("thinking") or {}
    return str(said.get("type") or ("adaptive" if thinks_unasked else "disabled"))
