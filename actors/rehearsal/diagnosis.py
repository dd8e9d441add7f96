"""Why the cache could not be used again: a request is compared with the one whose answer it names.

What is remembered is for one process only: after a restart the API does not know the earlier request, and says so.
"""

from collections import OrderedDict

import msgspec

from actors.rehearsal.cache import settings_before_all, settings_before_messages
from actors.rehearsal.models import Model
from actors.rehearsal.prompt import Json, Prompt, canonical
from actors.rehearsal.seals import digest

REMEMBERED_MAX = 10_000
_SHORT = 8


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """What of a request is compared."""

    model: bytes
    tools: bytes
    system: bytes
    settings: bytes
    messages: tuple[bytes, ...]
    cached_tokens: int


class Memory:
    """The fingerprints of requests, by the answers that they got; the oldest are forgotten."""

    def __init__(self) -> None:
        self._fingerprints: OrderedDict[tuple[str, str], Fingerprint] = OrderedDict()

    def remember(self, whose: str, message: str, fingerprint: Fingerprint) -> None:
        """Remember a request by the id of its answer."""
        self._fingerprints[whose, message] = fingerprint
        self._fingerprints.move_to_end((whose, message))
        while len(self._fingerprints) > REMEMBERED_MAX:
            self._fingerprints.popitem(last=False)

    def explain(self, whose: str, previous: str, now: Fingerprint, read_tokens: int) -> Json | None:
        """The `diagnostics` of an answer; None where the request goes on from the previous one."""
        before = self._fingerprints.get((whose, previous))
        if before is None:
            return {"cache_miss_reason": {"type": "previous_message_not_found"}}
        kind = _difference(before, now)
        if not kind:
            return None
        if kind == "unavailable":
            return {"cache_miss_reason": {"type": kind}}
        missed = max(0, before.cached_tokens - read_tokens)
        return {"cache_miss_reason": {"type": kind, "cache_missed_input_tokens": missed}}


def take_fingerprint(prompt: Prompt, model: Model, cached_tokens: int) -> Fingerprint:
    """What of a request is compared with the next one."""
    effort, speed, form = settings_before_all(prompt)
    return Fingerprint(
        model=digest(prompt.model.encode(), speed),
        tools=digest(*map(canonical, prompt.tools)),
        system=digest(*map(canonical, prompt.system)),
        settings=digest(effort, form, *settings_before_messages(prompt, model)),
        messages=tuple(
            digest(turn.role.encode(), canonical(block))[:_SHORT] for turn in prompt.turns for block in turn.blocks
        ),
        cached_tokens=cached_tokens,
    )


def _difference(before: Fingerprint, now: Fingerprint) -> str:
    """What has changed first, in the order of the prefix; empty when something was only added at the end."""
    if before.model != now.model:
        return "model_changed"
    if before.tools != now.tools:
        return "tools_changed"
    if before.system != now.system:
        return "system_changed"
    if before.messages != now.messages[: len(before.messages)]:
        return "messages_changed"
    return "unavailable" if before.settings != now.settings else ""
