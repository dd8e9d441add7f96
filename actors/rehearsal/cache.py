"""The prompt cache: what of a prompt was read from it, what was written, and for how long.

Entries are prefixes that somebody marked, by their digest. From each mark of a request the cache looks back over at
most `LOOKBACK_BLOCKS` blocks, the marked one among them, for an entry that is still there; the longest one counts.
An entry is there once the answer that wrote it has begun, so what is accounted is kept apart from what is stored.
Pure but for its entries: the time is given.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from actors.rehearsal.checking.caching import last_cacheable
from actors.rehearsal.models import Model
from actors.rehearsal.prompt import Json, Prompt, canonical, thinking_type
from actors.rehearsal.seals import digest
from actors.rehearsal.tokens import count_block

LOOKBACK_BLOCKS = 20
TTL_SECONDS = {"5m": 300.0, "1h": 3600.0}


class Block(msgspec.Struct, frozen=True):
    """A block of a prompt, as the end of a prefix."""

    prefix: bytes
    """The digest of everything up to here."""
    tokens: int
    """Of the prefix."""
    ttl: str = ""
    """For how long the prefix is to be cached, if it is."""


class Write(msgspec.Struct, frozen=True):
    """A prefix that is to be stored."""

    prefix: bytes
    ttl: str


class Accounting(msgspec.Struct, frozen=True, kw_only=True):
    """How the input of one request is charged, and what it does to the cache once its answer begins."""

    uncached_tokens: int
    read_tokens: int = 0
    written_5m_tokens: int = 0
    written_1h_tokens: int = 0
    reads: tuple[bytes, ...] = ()
    writes: tuple[Write, ...] = ()

    @property
    def cached_tokens(self) -> int:
        """What the next request may find."""
        return self.read_tokens + self.written_5m_tokens + self.written_1h_tokens

    def usage(self, output_tokens: int, thinking_tokens: int) -> Json:
        """The `usage` of the answer."""
        return {
            "input_tokens": self.uncached_tokens,
            "cache_creation_input_tokens": self.written_5m_tokens + self.written_1h_tokens,
            "cache_read_input_tokens": self.read_tokens,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.written_5m_tokens,
                "ephemeral_1h_input_tokens": self.written_1h_tokens,
            },
            "output_tokens": output_tokens,
            "output_tokens_details": {"thinking_tokens": thinking_tokens},
            "service_tier": "standard",
        }


class _Entry:
    def __init__(self, ttl: str, now: float) -> None:
        self._seconds = TTL_SECONDS[ttl]
        self.refresh(now)

    def refresh(self, now: float) -> None:
        self.expires = now + self._seconds


class Cache:
    """What is cached, for each key and model."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], dict[bytes, _Entry]] = {}

    def account(self, whose: str, model: Model, blocks: tuple[Block, ...], now: float) -> Accounting:
        """What a prompt would cost now. Changes nothing."""
        entries = self._entries.get((whose, model.id), {})
        alive = {block.prefix for block in blocks if block.prefix in entries and entries[block.prefix].expires > now}
        marks = [at for at, block in enumerate(blocks) if block.ttl and block.tokens >= model.cache_tokens_min]
        hit = max((at for mark in marks for at in _window(mark) if blocks[at].prefix in alive), default=-1)
        return _charge(blocks, marks, hit, alive)

    def begin(self, whose: str, model: Model, accounting: Accounting, now: float) -> None:
        """The answer has begun: what it read is fresh again, and what it wrote is there."""
        entries = self._entries.setdefault((whose, model.id), {})
        for prefix in accounting.reads:
            if prefix in entries:
                entries[prefix].refresh(now)
        for write in accounting.writes:
            entries[write.prefix] = _Entry(write.ttl, now)
        for prefix in [prefix for prefix, entry in entries.items() if entry.expires <= now]:
            del entries[prefix]


def _window(mark: int) -> range:
    return range(max(0, mark - LOOKBACK_BLOCKS + 1), mark + 1)


def _charge(blocks: tuple[Block, ...], marks: list[int], hit: int, alive: set[bytes]) -> Accounting:
    """From the hit to the last long mark costs as a long write, from there to the last mark as a short one."""
    new = [blocks[at] for at in marks if at > hit]
    read = blocks[hit].tokens if hit >= 0 else 0
    long = max((block.tokens for block in new if block.ttl == "1h"), default=read)
    last = max((block.tokens for block in new), default=read)
    return Accounting(
        uncached_tokens=blocks[-1].tokens - last,
        read_tokens=read,
        written_1h_tokens=long - read,
        written_5m_tokens=last - long,
        reads=tuple(block.prefix for block in blocks[: hit + 1] if block.prefix in alive),
        writes=tuple(Write(block.prefix, block.ttl) for block in new),
    )


def read_blocks(prompt: Prompt, model: Model) -> tuple[Block, ...]:
    """The blocks of a prompt with the digests of their prefixes.

    Effort, speed and the format of the answer come before everything; how it is to think and to use its tools, before
    the messages: who changes them begins anew from there.
    """
    return tuple(_chain(prompt, model))


def _chain(prompt: Prompt, model: Model) -> Iterator[Block]:
    prefix, tokens, inside = digest(*settings_before_all(prompt)), 0, ""
    automatic: Any = prompt.body.get("cache_control")
    marked = last_cacheable(prompt) if automatic else None
    for section, role, block in prompt.blocks():
        if section == "messages" and inside != "messages":
            prefix = digest(prefix, *settings_before_messages(prompt, model))
        inside = section
        prefix = digest(prefix, f"{section} {role}".encode(), canonical(block))
        tokens += count_block(block)
        mark: Any = block.get("cache_control") or (automatic if block is marked else None) or _mark_inside(block)
        yield Block(prefix, tokens, mark.get("ttl", "5m") if mark else "")


def _mark_inside(block: Json) -> Any:
    """The mark in a result's content: it has no prefix of its own here, so that it counts for the whole result."""
    content = block.get("content")
    marks = [each.get("cache_control") for each in content] if isinstance(content, list) else []
    return next((mark for mark in reversed(marks) if mark), None)


def settings_before_all(prompt: Prompt) -> tuple[bytes, ...]:
    """What changes all of the prefix, beside the model."""
    output: Any = prompt.body.get("output_config") or {}
    return (
        msgspec.json.encode(output.get("effort")),
        msgspec.json.encode(prompt.body.get("speed") or "standard"),
        msgspec.json.encode(output.get("format")),
    )


def settings_before_messages(prompt: Prompt, model: Model) -> tuple[bytes, ...]:
    """What changes the prefix from the messages on."""
    thinking: Any = prompt.body.get("thinking") or {}
    return (
        thinking_type(prompt.body, model.thinks_unasked).encode(),
        msgspec.json.encode(thinking.get("budget_tokens")),
        msgspec.json.encode(prompt.body.get("tool_choice") or {"type": "auto"}),
    )
