"""From a conversation to the request that asks for its next turn, with its marks for the provider's cache. Pure.

What stands in front of a mark is read from the cache if it was written there before. Marks are set behind what never
changes (tools, system), behind what the last call ended with, and at the end. The second makes sure that what the last
call has written is found, however many blocks lie between: the provider looks back only so far from each mark.
"""

from typing import Any

import msgspec

from actors.thinking.conversation import Block, Conversation, blocks_of

OPENING_TTL = "1h"
"""Many conversations begin alike, and one can wait long for its next turn."""

BYTES_PER_BLOCK = 16
"""What a block may cost beside its text; a token has at least a byte, so bytes are more than there can be tokens."""
BYTES_PER_REQUEST = 1024


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """How a role's model is asked."""

    model: str
    max_tokens: int
    effort: str = ""


def request_of(conversation: Conversation, says: str, profile: Profile, after: str, max_tokens: int) -> dict[str, Any]:
    """The request for the next turn; `after` is the provider's id of the last one."""
    request: dict[str, Any] = {
        "model": profile.model,
        "max_tokens": max_tokens,
        "system": _system(conversation.opening.system),
        "tools": _tools(conversation),
        "messages": _messages(conversation, says),
        "tool_choice": {"type": "auto"},
        "diagnostics": {"previous_message_id": after or None},
    }
    if profile.effort:
        request["output_config"] = {"effort": profile.effort}
    unwanted = [name for name in ("system", "tools") if not request[name]]
    if not request["tools"]:
        unwanted.append("tool_choice")
    return {name: value for name, value in request.items() if name not in unwanted}


def _system(texts: tuple[str, ...]) -> list[Block]:
    blocks: list[Block] = [{"type": "text", "text": text} for text in texts if text.strip()]
    return [*blocks[:-1], _marked(blocks[-1], OPENING_TTL)] if blocks else []


def _tools(conversation: Conversation) -> list[Block]:
    tools = blocks_of(conversation.opening.tools)
    has_system = any(text.strip() for text in conversation.opening.system)
    return tools if has_system or not tools else [*tools[:-1], _marked(tools[-1], OPENING_TTL)]


def _messages(conversation: Conversation, says: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for turn in conversation.turns:
        if turn.says:
            messages.append({"role": "user", "content": blocks_of(turn.says)})
        messages.append({"role": "assistant", "content": blocks_of(turn.content)})
    if says:
        messages.append({"role": "user", "content": blocks_of(says)})
    for message in [message for message in messages if message["role"] == "user"][-2:]:
        content = message["content"]
        message["content"] = [*content[:-1], _marked(content[-1])]
    return messages


def _marked(block: Block, ttl: str = "") -> Block:
    mark = {"type": "ephemeral", "ttl": ttl} if ttl else {"type": "ephemeral"}
    return {**block, "cache_control": mark}


def bytes_of(conversation: Conversation, says: str) -> int:
    """The size of all that is said, which no number of its tokens can be over."""
    texts = [*conversation.opening.system, conversation.opening.tools, says]
    texts += [text for turn in conversation.turns for text in turn]
    return BYTES_PER_REQUEST + sum(len(text.encode()) + BYTES_PER_BLOCK for text in texts)
