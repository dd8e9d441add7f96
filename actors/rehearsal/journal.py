"""The journal of a rehearsal: every request that was answered, in the order in which the answers began."""

from typing import Any

import msgspec


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One request and what became of it; words of its scene are empty where it had none."""

    endpoint: str
    """`messages`, `count_tokens`, `models`."""
    status: int
    """What was answered; 0 if nothing was."""
    request_id: str
    sha256: str
    """Of the body, so that it can be seen that a request was sent again unchanged."""
    role: str = ""
    story: str = ""
    session: str = ""
    state: str = ""
    model: str = ""
    is_streamed: bool = False
    message_id: str = ""
    stop_reason: str = ""
    usage: dict[str, Any] | None = None
    error: str = ""
    """What was wrong, in the words of the answer."""
    fault: str = ""
    """The kind of the fault that it met."""
