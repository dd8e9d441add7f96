"""The scene: what a part can know of a conversation, and all that it may decide by. Pure."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from actors.rehearsal.prompt import Json, Prompt, text_of

_MARK = re.compile(r"callboard:((?:[ \t]+[a-z_]+=\S+)+)")
_WORD = re.compile(r"([a-z_]+)=(\S+)")


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool returned, with the call that it answers."""

    id: str
    name: str
    input: Json
    text: str
    is_error: bool = False


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as a part sees it.

    Who speaks comes from a line `callboard: role=coder story=s-1 session=s-1.1 state=CODING` in the system prompt, in
    what the user says, or in `metadata.user_id`; where a word is said more than once the last one counts.
    """

    role: str = ""
    story: str = ""
    session: str = ""
    state: str = ""
    model: str
    system: str
    tools: tuple[str, ...]
    """Their names."""
    messages: tuple[Json, ...]
    """As they were sent."""
    text: str
    """What the user has said since the assistant last spoke, without the line above; empty when only results came."""
    results: tuple[ToolResult, ...]
    """The results that have come since then."""
    history: tuple[ToolResult, ...]
    """The results in all of the conversation, the last one last."""
    turns: int
    """How often the assistant has spoken."""

    def last(self, tool: str) -> ToolResult | None:
        """What a tool returned most recently, however long ago."""
        return next((each for each in reversed(self.history) if each.name == tool), None)


def read_scene(prompt: Prompt) -> Scene:
    """The scene of a request."""
    words: dict[str, str] = {}
    for text in _spoken(prompt):
        for mark in _MARK.findall(text):
            words.update(_WORD.findall(mark))
    history = tuple(_results(prompt))
    heard = _since_the_assistant(prompt)
    count = sum(block["type"] == "tool_result" for block in heard)
    return Scene(
        role=words.get("role", ""),
        story=words.get("story", ""),
        session=words.get("session", ""),
        state=words.get("state", ""),
        model=prompt.model,
        system=prompt.system_text(),
        tools=tuple(tool["name"] for tool in prompt.tools),
        messages=tuple(prompt.body["messages"]),
        text=_MARK.sub("", text_of(heard)).strip(),
        results=history[len(history) - count :],
        history=history,
        turns=sum(turn.role == "assistant" for turn in prompt.turns),
    )


def _since_the_assistant(prompt: Prompt) -> list[Json]:
    """What the user sent since then, in one message or several; a system message in between changes nothing."""
    spoke = max((at for at, turn in enumerate(prompt.turns) if turn.role == "assistant"), default=-1)
    return [block for turn in prompt.turns[spoke + 1 :] if turn.role == "user" for block in turn.blocks]


def _spoken(prompt: Prompt) -> Iterator[str]:
    """Where a mark may be: not in what a tool returned, and not in what the model said."""
    metadata: Any = prompt.body.get("metadata") or {}
    yield metadata.get("user_id") or ""
    yield prompt.system_text()
    for turn in prompt.turns:
        if turn.role != "assistant":
            yield text_of(turn.blocks)


def _results(prompt: Prompt) -> Iterator[ToolResult]:
    calls: dict[str, Json] = {}
    for turn in prompt.turns:
        for block in turn.blocks:
            if block["type"] == "tool_use":
                calls[block["id"]] = block
            elif block["type"] == "tool_result":
                call = calls[block["tool_use_id"]]
                yield ToolResult(
                    id=call["id"],
                    name=call["name"],
                    input=call["input"],
                    text=text_of(block.get("content")),
                    is_error=bool(block.get("is_error")),
                )


def tell(prompt: Prompt) -> str:
    """A conversation for a person to read."""
    lines = [f"model   {prompt.model}", f"tools   {', '.join(tool['name'] for tool in prompt.tools) or 'none'}"]
    lines += [f"{'system':<10}{line}" for line in prompt.system_text().splitlines()]
    for turn in prompt.turns:
        for block in turn.blocks:
            lines += [f"{turn.role:<10}{line}" for line in _tell_block(block).splitlines()]
    return "\n".join(lines)


def _tell_block(block: Json) -> str:
    match block["type"]:
        case "text":
            return str(block["text"])
        case "thinking":
            return f"(thinks) {block['thinking']}"
        case "tool_use":
            return f"calls {block['name']} {msgspec.json.encode(block['input']).decode()}"
        case "tool_result":
            word = "error" if block.get("is_error") else "result"
            return f"{word} of {block['tool_use_id']}: {text_of(block.get('content'))}"
        case kind:
            return f"({kind})"
