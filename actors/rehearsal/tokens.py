"""How many tokens something is: an estimate of ours, the same for counting and for usage. Pure.

About four bytes a token, and a little for each block; never what the real tokenizer would say.
"""

from typing import Any

import msgspec

from actors.rehearsal.prompt import Json, Prompt, as_blocks, canonical

BYTES_PER_TOKEN = 4
BLOCK_TOKENS = 4
"""What surrounds a block: its kind, its role, its end."""
MEDIA_TOKENS = 1600
"""An image or a document, whatever is in it."""


def count_text(text: str) -> int:
    """The tokens of a text."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def count_block(block: Json) -> int:
    """The tokens of one block of a prompt: of a message, of the system prompt, or a tool."""
    return BLOCK_TOKENS + _inside(block)


def _inside(block: Json) -> int:
    match block.get("type"):
        case "text":
            return count_text(block["text"])
        case "thinking":
            return count_text(block["thinking"])
        case "tool_use" | "server_tool_use":
            return count_input(block["name"], block["input"])
        case "tool_result":
            return sum(count_block(each) for each in as_blocks(block.get("content") or ()))
        case "image" | "document":
            return MEDIA_TOKENS
        case _:
            return -(-len(canonical(block)) // BYTES_PER_TOKEN)


def count_input(name: str, arguments: Any) -> int:
    """The tokens of a call of a tool."""
    return count_text(name) + count_text(msgspec.json.encode(arguments).decode())


def count_prompt(prompt: Prompt) -> int:
    """The tokens of all of a prompt."""
    return sum(count_block(block) for _, _, block in prompt.blocks())
