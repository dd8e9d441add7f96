"""Faults on demand: what goes wrong, how often or for how long, and for whom."""

import math
import random
from collections.abc import Sequence
from typing import Literal

import msgspec

Kind = Literal[
    "rate_limit",
    "overloaded",
    "server_error",
    "spend_limit",
    "billing",
    "auth",
    "permission",
    "not_found",
    "too_large",
    "bad_request",
    "refuse_connection",
    "no_answer",
    "slow_first_byte",
    "cut",
    "stall",
    "sse_error",
    "no_message_stop",
    "malformed_json",
    "latency",
]
Endpoint = Literal["", "messages", "count_tokens", "models"]
STREAM_ONLY = frozenset({"sse_error", "no_message_stop"})
"""What only a stream can have."""
IN_BODY = frozenset({"cut", "stall", "sse_error", "no_message_stop", "malformed_json"})
"""What happens after the answer has begun."""
SPEND_LIMITS = {
    429: (
        "rate_limit_error",
        "enforced_spend_limit_reached",
        "Your organization has crossed the monthly API usage threshold of its tier.",
    ),
    400: (
        "invalid_request_error",
        "",
        "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
    ),
}
SERVER_ERRORS = {
    408: ("timeout_error", "The request took too long to arrive"),
    409: ("conflict_error", "The request conflicts with another one"),
    500: ("api_error", "Internal server error"),
    503: ("api_error", "Service unavailable"),
    504: ("timeout_error", "The request timed out at the gateway"),
}
REFUSALS: dict[str, tuple[int, str, str]] = {
    "rate_limit": (429, "rate_limit_error", "This request would exceed the rate limit of your organization."),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "billing": (402, "billing_error", "Your credit balance is too low to access the Anthropic API."),
    "auth": (401, "authentication_error", "invalid x-api-key"),
    "permission": (403, "permission_error", "Your API key does not have permission to use the specified resource."),
    "not_found": (404, "not_found_error", "model: this model is not available"),
    "too_large": (413, "request_too_large", "Request exceeds the maximum size"),
    "bad_request": (400, "invalid_request_error", "messages: this request is not valid"),
}


class Latency(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long an answer takes to begin, drawn anew for each from a seed."""

    distribution: Literal["constant", "uniform", "lognormal"] = "constant"
    seconds: float = 0.0
    """The time itself, the least time, or the median."""
    seconds_max: float = 0.0
    """The most; 0: no more than `seconds` (uniform), or without limit (lognormal)."""
    sigma: float = 0.5
    """How wide a lognormal one spreads."""
    seed: int = 0

    def draw(self, n: int) -> float:
        """The `n`th time."""
        chance = random.Random(f"{self.seed}:{n}")  # noqa: S311 -- no secret
        match self.distribution:
            case "constant":
                return self.seconds
            case "uniform":
                return chance.uniform(self.seconds, max(self.seconds, self.seconds_max))
            case "lognormal":
                drawn = self.seconds * math.exp(chance.gauss(0.0, self.sigma))
                return min(drawn, self.seconds_max) if self.seconds_max else drawn


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that goes wrong, once unless it says otherwise, for the calls that it fits (all, if it does not say).

    With `seconds` it is an outage: it begins `begins_seconds` after it was added, and ends whatever was called.
    """

    kind: Kind
    times: int | None = None
    """How many calls it meets (default: one, or with `seconds` all)."""
    seconds: float | None = None
    begins_seconds: float = 0.0
    skips: int = 0
    """How many fitting calls it lets pass first."""
    endpoint: Endpoint = ""
    role: str = ""
    story: str = ""
    session: str = ""
    state: str = ""
    model: str = ""
    status: int = 0
    """Of a `server_error` (500, 503, 504, 408, 409) or `spend_limit` (429, 400), which have several."""
    retry_after_seconds: float | None = None
    retry_after_ms: int | None = None
    code: str = ""
    """The error's `details.error_code`."""
    after_events: int | None = None
    """After how many events of a stream it happens (default: 3)."""
    after_bytes: int | None = None
    """Or after how many bytes of the answer's body."""
    error: str = "overloaded_error"
    """The type of the error in an `sse_error`."""
    delay_seconds: float = 1.0
    """Of `slow_first_byte`."""
    latency: Latency = Latency()

    def __post_init__(self) -> None:
        """What would never happen is an error of whoever asks for it."""
        statuses = {"server_error": {*SERVER_ERRORS}, "spend_limit": {*SPEND_LIMITS}}
        if self.status and self.status not in statuses.get(self.kind, set()):
            raise ValueError(f"{self.kind} has no status {self.status}")
        if (self.seconds is not None and self.seconds < 0) or (self.times is not None and self.times < 1):
            raise ValueError(f"{self.kind} would never happen: times is at least 1, and seconds not negative")


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a call when it is decided what goes wrong."""

    endpoint: str
    role: str = ""
    story: str = ""
    session: str = ""
    state: str = ""
    model: str = ""
    is_streamed: bool = False
    is_refused: bool = False
    """Whether it will not be answered anyway, so that nothing can break in its answer."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A fault, and what has become of it."""

    fault: Fault
    used: int
    is_over: bool


class _Pending:
    def __init__(self, fault: Fault, now: float) -> None:
        self.fault = fault
        self.seen = 0
        self.used = 0
        self._begins = now + fault.begins_seconds
        outage = fault.seconds is not None or fault.kind == "latency"
        self._times = math.inf if fault.times is None and outage else fault.times or 1

    def is_over(self, now: float) -> bool:
        seconds = self.fault.seconds
        return self.used >= self._times or (seconds is not None and now >= self._begins + seconds)

    def meets(self, now: float) -> bool:
        """Count a call that it fits, and say whether it meets it."""
        if now < self._begins or self.is_over(now):
            return False
        self.seen += 1
        if self.seen <= self.fault.skips:
            return False
        self.used += 1
        return True


class Faults:
    """The faults that are to come, the first that was added first; the time is given."""

    def __init__(self) -> None:
        self._all: list[_Pending] = []

    def add(self, faults: Sequence[Fault], now: float) -> None:
        """Have these happen, too."""
        self._all += [_Pending(fault, now) for fault in faults]

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        self._all.clear()

    def standing(self, now: float) -> list[Standing]:
        """What is pending and what was used."""
        return [Standing(fault=each.fault, used=each.used, is_over=each.is_over(now)) for each in self._all]

    def take(self, facts: Facts, now: float) -> Fault | None:
        """What goes wrong with this call."""
        for each in self._all:
            if each.fault.kind != "latency" and fits(each.fault, facts) and each.meets(now):
                return each.fault
        return None

    def delay_seconds(self, facts: Facts, now: float) -> float:
        """How long this call takes to be answered, beside all that goes wrong."""
        return sum(
            each.fault.latency.draw(each.used)
            for each in self._all
            if each.fault.kind == "latency" and fits(each.fault, facts) and each.meets(now)
        )


def fits(fault: Fault, facts: Facts) -> bool:
    """Whether a fault is for such a call."""
    return (
        fault.endpoint in ("", facts.endpoint)
        and fault.role in ("", facts.role)
        and fault.story in ("", facts.story)
        and fault.session in ("", facts.session)
        and fault.state in ("", facts.state)
        and fault.model in ("", facts.model)
        and (fault.kind not in STREAM_ONLY or facts.is_streamed)
        and (fault.kind not in IN_BODY or not facts.is_refused)
    )


def refusal(fault: Fault) -> tuple[int, str, str, str] | None:
    """The status, type, code and message with which a fault answers; None if it does something else."""
    if fault.kind == "server_error":
        status = fault.status or 500
        return status, SERVER_ERRORS[status][0], fault.code, SERVER_ERRORS[status][1]
    if fault.kind == "spend_limit":
        status = fault.status or 429
        kind, code, message = SPEND_LIMITS[status]
        return status, kind, fault.code or code, message
    if fault.kind in REFUSALS:
        status, kind, message = REFUSALS[fault.kind]
        return status, kind, fault.code, message
    return None
