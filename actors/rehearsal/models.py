"""The models that there are: what each may be asked, how long its answers may be, and from where on it caches.

As far as it is known: docs/rehearsal.md says what was guessed.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Lifecycle = Literal["active", "deprecated", "retired"]
EFFORTS = ("low", "medium", "high", "xhigh", "max")


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model."""

    id: str
    name: str
    line: str
    created_at: str
    lifecycle: Lifecycle = "active"
    retires_at: str | None = None
    max_input_tokens: int = 1_000_000
    max_tokens: int = 128_000
    cache_tokens_min: int = 512
    """A shorter prefix is not cached, and nothing is said about it."""
    thinks_unasked: bool = True
    """Whether a request without `thinking` has it on."""
    thinking_types: tuple[str, ...] = ("adaptive", "disabled", "between_tools")
    shows_thinking: bool = False
    """Whether the text of its thinking is in the answer when the request does not say."""
    binds_thinking: bool = True
    """Whether a thinking block is good only in the conversation that it was made in."""
    hears_system_messages: bool = True
    """Whether a message may have the role `system`."""

    def describe(self) -> dict[str, Any]:
        """What `/v1/models` says of it."""
        return {
            "type": "model",
            "id": self.id,
            "display_name": self.name,
            "line": self.line,
            "created_at": self.created_at,
            "lifecycle": self.lifecycle,
            "deprecated_at": self.created_at if self.lifecycle != "active" else None,
            "retires_at": self.retires_at,
            "max_input_tokens": self.max_input_tokens,
            "max_tokens": self.max_tokens,
            "capabilities": self._capabilities(),
        }

    def _capabilities(self) -> dict[str, Any]:
        yes, no = {"supported": True}, {"supported": False}
        thinking = ("adaptive", "between_tools", "disabled", "enabled")
        return {
            "batch": no,
            "citations": no,
            "code_execution": no,
            "context_management": no,
            "effort": {"supported": True} | dict.fromkeys(EFFORTS, yes),
            "image_input": yes,
            "pdf_input": yes,
            "server_tools": {"supported": False, "code_execution": no, "web_search": no},
            "structured_outputs": yes,
            "thinking": {
                "supported": True,
                "types": {each: yes if each in self.thinking_types else no for each in thinking},
            },
        }


def _legacy(identifier: str, name: str, line: str, created_at: str, cache_tokens_min: int, **more: Any) -> Model:
    """A model of the fourth generation up to 4.6: it thinks when asked, and shows it."""
    facts: dict[str, Any] = {
        "thinks_unasked": False,
        "thinking_types": ("enabled", "disabled"),
        "shows_thinking": True,
        "binds_thinking": False,
        "hears_system_messages": False,
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
    }
    return Model(
        id=identifier,
        name=name,
        line=line,
        created_at=created_at,
        cache_tokens_min=cache_tokens_min,
        **facts | more,
    )


_ALWAYS = ("adaptive",)
_BOTH = ("adaptive", "enabled", "disabled")
_LARGE = {"max_input_tokens": 1_000_000, "max_tokens": 128_000}
_ON_REQUEST = ("adaptive", "disabled")

_ALL = (
    Model(
        id="claude-fable-5-2",
        name="Claude Fable 5.2",
        line="fable",
        created_at="2026-11-09T00:00:00Z",
        thinking_types=_ALWAYS,
    ),
    Model(
        id="claude-mythos-5-2",
        name="Claude Mythos 5.2",
        line="mythos",
        created_at="2026-11-09T00:00:00Z",
        thinking_types=_ALWAYS,
    ),
    Model(
        id="claude-haiku-5-5",
        name="Claude Haiku 5.5",
        line="haiku",
        created_at="2026-10-01T00:00:00Z",
    ),
    Model(
        id="claude-sonnet-5-5",
        name="Claude Sonnet 5.5",
        line="sonnet",
        created_at="2026-09-15T00:00:00Z",
    ),
    Model(
        id="claude-fable-5-1",
        name="Claude Fable 5.1",
        line="fable",
        created_at="2026-09-01T00:00:00Z",
        thinking_types=_ALWAYS,
    ),
    Model(
        id="claude-mythos-5-1",
        name="Claude Mythos 5.1",
        line="mythos",
        created_at="2026-09-01T00:00:00Z",
        thinking_types=_ALWAYS,
    ),
    Model(
        id="claude-opus-5-5",
        name="Claude Opus 5.5",
        line="opus",
        created_at="2026-08-15T00:00:00Z",
    ),
    Model(
        id="claude-sonnet-5",
        name="Claude Sonnet 5",
        line="sonnet",
        created_at="2026-06-15T00:00:00Z",
        cache_tokens_min=1024,
        binds_thinking=False,
    ),
    Model(
        id="claude-fable-5",
        name="Claude Fable 5",
        line="fable",
        created_at="2026-06-10T00:00:00Z",
        thinking_types=_ALWAYS,
        binds_thinking=False,
    ),
    Model(
        id="claude-mythos-5",
        name="Claude Mythos 5",
        line="mythos",
        created_at="2026-06-10T00:00:00Z",
        thinking_types=_ALWAYS,
        binds_thinking=False,
    ),
    Model(
        id="claude-opus-5",
        name="Claude Opus 5",
        line="opus",
        created_at="2026-06-01T00:00:00Z",
        binds_thinking=False,
    ),
    _legacy(
        "claude-opus-4-8",
        "Claude Opus 4.8",
        "opus",
        "2026-04-15T00:00:00Z",
        1024,
        **_LARGE,
        thinking_types=_ON_REQUEST,
        shows_thinking=False,
        hears_system_messages=True,
    ),
    _legacy(
        "claude-opus-4-7",
        "Claude Opus 4.7",
        "opus",
        "2026-03-15T00:00:00Z",
        2048,
        **_LARGE,
        thinking_types=_ON_REQUEST,
        shows_thinking=False,
    ),
    _legacy("claude-opus-4-6", "Claude Opus 4.6", "opus", "2026-02-05T00:00:00Z", 4096, thinking_types=_BOTH, **_LARGE),
    _legacy(
        "claude-sonnet-4-6", "Claude Sonnet 4.6", "sonnet", "2026-02-17T00:00:00Z", 1024, thinking_types=_BOTH, **_LARGE
    ),
    _legacy("claude-haiku-4-5", "Claude Haiku 4.5", "haiku", "2025-10-01T00:00:00Z", 4096),
    _legacy("claude-opus-4-5", "Claude Opus 4.5", "opus", "2025-11-24T00:00:00Z", 4096),
    _legacy(
        "claude-sonnet-4-5",
        "Claude Sonnet 4.5",
        "sonnet",
        "2025-09-29T00:00:00Z",
        1024,
        lifecycle="deprecated",
        retires_at="2026-11-30T00:00:00Z",
    ),
    _legacy(
        "claude-mythos-preview",
        "Claude Mythos Preview",
        "mythos",
        "2026-04-07T00:00:00Z",
        1024,
        lifecycle="retired",
        retires_at="2026-06-30T00:00:00Z",
    ),
)

_DATED = {
    "claude-haiku-4-5": "claude-haiku-4-5-20251001",
    "claude-opus-4-5": "claude-opus-4-5-20251101",
    "claude-sonnet-4-5": "claude-sonnet-4-5-20250929",
}

MODELS: Mapping[str, Model] = {each.id: each for each in _ALL} | {
    dated: msgspec.structs.replace(each, id=dated) for each in _ALL if (dated := _DATED.get(each.id))
}
"""By id, the newest first, as the API lists them."""
