"""What is sent back: answers and errors with the API's headers. Pure."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from actors.rehearsal.errors import RefusedError
from actors.rehearsal.faults import Fault
from actors.rehearsal.prompt import Json

ORGANIZATION = "00000000-0000-4000-8000-000000000000"
REQUESTS_PER_MINUTE = 4000
TOKENS_PER_MINUTE = {"input-tokens": 4_000_000, "output-tokens": 800_000, "tokens": 4_800_000}
SECONDS_MAX = 253_402_300_799.0
"""The last second that has a date."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer; `events` are its parts if it is a stream, otherwise it is `body`."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    events: tuple[bytes, ...] = ()
    record: Mapping[str, Any] = {}
    """What the journal says of it, beside what it knows of the request."""
    said: str = ""
    """What a person should read at once."""
    begins: Callable[[float], None] | None = None
    """To be called with the time at which its first byte is sent."""


def data_reply(value: Any, headers: Mapping[str, str]) -> Reply:
    """An answer that is all there."""
    return Reply(status=200, headers={**headers, "content-type": "application/json"}, body=msgspec.json.encode(value))


def error_reply(error: RefusedError, request_id: str, headers: Mapping[str, str]) -> Reply:
    """An error in the API's shape."""
    body = msgspec.json.encode(error_body(error.kind, error.message, error.code) | {"request_id": request_id})
    record = {"error": f"{error.kind}: {error.message}"}
    headers = {**headers, "content-type": "application/json"}
    return Reply(status=error.status, headers=headers, body=body, record=record)


def error_body(kind: str, message: str, code: str = "") -> Json:
    """What an error says, also in the middle of a stream."""
    details = {"details": {"error_code": code}} if code else {}
    return {"type": "error", "error": {"type": kind, "message": message, **details}}


def common_headers(request_id: str, now: float) -> dict[str, str]:
    """What every answer has."""
    return {
        "request-id": request_id,
        "anthropic-organization-id": ORGANIZATION,
        "date": _moment(now).strftime("%a, %d %b %Y %H:%M:%S GMT"),
    }


def rate_limit_headers(usage: Json | None, now: float) -> dict[str, str]:
    """The limits, from which nothing is ever used up for the next request."""
    reset = _moment(now + 60).isoformat().replace("+00:00", "Z")
    used = usage or {}
    spent = {"input-tokens": used.get("input_tokens", 0), "output-tokens": used.get("output_tokens", 0)}
    spent["tokens"] = sum(spent.values())
    headers = _limit("requests", REQUESTS_PER_MINUTE, 1, reset)
    for name, limit in TOKENS_PER_MINUTE.items():
        headers |= _limit(name, limit, spent[name], reset)
    return headers


def fault_headers(fault: Fault, now: float) -> dict[str, str]:
    """What an error on demand says of when to come again."""
    headers: dict[str, str] = {}
    if fault.kind == "rate_limit":
        reset = _moment(now + (fault.retry_after_seconds or 60)).isoformat().replace("+00:00", "Z")
        headers |= _limit("requests", REQUESTS_PER_MINUTE, REQUESTS_PER_MINUTE, reset)
    if fault.retry_after_seconds is not None:
        headers["retry-after"] = f"{fault.retry_after_seconds:g}"
    if fault.retry_after_ms is not None:
        headers["retry-after-ms"] = str(fault.retry_after_ms)
    if fault.kind == "spend_limit":
        headers["x-should-retry"] = "false"
    return headers


def _limit(name: str, limit: int, used: int, reset: str) -> dict[str, str]:
    start = f"anthropic-ratelimit-{name}"
    return {f"{start}-limit": str(limit), f"{start}-remaining": str(max(0, limit - used)), f"{start}-reset": reset}


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(min(max(seconds, 0), SECONDS_MAX), UTC).replace(microsecond=0)
