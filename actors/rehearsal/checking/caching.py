"""Where a request asks for its prefix to be cached: how often, and for how long. Pure."""

from collections.abc import Iterator
from typing import Any

from actors.rehearsal.checking.shapes import has_fields, one_of, or_null
from actors.rehearsal.errors import RefusedError
from actors.rehearsal.prompt import Json, Prompt

BREAKPOINTS_MAX = 4


def a_cache_control(place: str, value: Any) -> None:
    """The mark itself."""
    has_fields(place, value, {"type": one_of("ephemeral")}, {"ttl": one_of("5m", "1h")})


CACHED = {"cache_control": or_null(a_cache_control)}
"""The field of whatever can be marked."""


def check_breakpoints(prompt: Prompt) -> None:
    """Refuse too many marks, a short one before a long one, and marks that contradict each other."""
    marked = [block for _, _, block in prompt.blocks() if block.get("cache_control")]
    inner = [block for block in _inner(prompt) if block.get("cache_control")]
    automatic = prompt.body.get("cache_control")
    times = [block["cache_control"].get("ttl", "5m") for block in marked]
    if automatic:
        last = last_cacheable(prompt)
        if last is not None and last.get("cache_control"):
            if last["cache_control"].get("ttl", "5m") != automatic.get("ttl", "5m"):
                raise RefusedError("cache_control: the last cacheable block has a cache_control with another ttl")
        else:
            times.append(automatic.get("ttl", "5m"))
    if len(times) + len(inner) > BREAKPOINTS_MAX:
        raise RefusedError(
            f"A maximum of {BREAKPOINTS_MAX} blocks with cache_control may be provided. "
            f"Found {len(times) + len(inner)}."
        )
    if "5m" in times and "1h" in times[times.index("5m") :]:
        raise RefusedError(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
            "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        )


def last_cacheable(prompt: Prompt) -> Json | None:
    """The block that the automatic mark falls upon."""
    found = [block for _, _, block in prompt.blocks() if block.get("type") not in ("thinking", "redacted_thinking")]
    return found[-1] if found else None


def _inner(prompt: Prompt) -> Iterator[Json]:
    """The blocks inside of results, which may be marked, too."""
    for turn in prompt.turns:
        for block in turn.blocks:
            content = block.get("content") if block.get("type") == "tool_result" else None
            if isinstance(content, list):
                yield from content
