"""The throttle of a provider, which all processes share: first calls one after another, and slower after a 429. Pure.

It stands on the board. Who wants to call takes a place in time; who was told to slow down says so to everybody. While
nobody was told, only the first call of a conversation takes a place: what several of them have in common is then in
the provider's cache for all but the first.
"""

from datetime import datetime, timedelta

import msgspec

from protocol.messages import Instant

FIRST_SPACING_SECONDS = 0.5
"""Between the first calls of two conversations."""
SLOW_SPACING_SECONDS = 0.25
SPACING_SECONDS_MAX = 30.0
AHEAD_SECONDS_MAX = 3600.0
"""What is further away than the longest pause that can be set comes from a machine whose clock is wrong."""
HALVED_AFTER_SECONDS = 60.0
"""So long after the last 429 calls may come twice as fast again, and so on."""
FORGOTTEN_SECONDS = 0.05
"""A spacing below this is none."""


class Throttle(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How fast a provider may be called now."""

    spacing_seconds: float = 0.0
    slowed_at: Instant | None = None
    not_before: Instant | None = None
    next_at: Instant | None = None
    writer: str = ""
    """Who has written this, and which time: two who write at once write different things."""


def take_place(throttle: Throttle, now: datetime, *, is_first: bool) -> tuple[Throttle, datetime]:
    """The throttle with a place in time taken, and when that is; the same throttle where anybody may call at once."""
    earliest = _heeded(throttle.not_before, now)
    spacing = max(spacing_at(throttle, now), FIRST_SPACING_SECONDS if is_first else 0.0)
    if not spacing:
        return throttle, earliest
    start = max(earliest, _heeded(throttle.next_at, now))
    return msgspec.structs.replace(throttle, next_at=start + timedelta(seconds=spacing)), start


def _heeded(when: datetime | None, now: datetime) -> datetime:
    """A time that is to be waited for; now, if that is past or cannot be right."""
    if when is None or when > now + timedelta(seconds=AHEAD_SECONDS_MAX):
        return now
    return max(when, now)


def slow_down(throttle: Throttle, now: datetime, retry_after_seconds: float) -> Throttle:
    """The throttle after a 429: nobody calls before the time is up, and then at half the speed."""
    told_before = _heeded(throttle.not_before, now)
    if now < told_before:
        # Many are told at once, because of what they did before any of them knew: that counts once.
        spacing, slowed_at = throttle.spacing_seconds, throttle.slowed_at
    else:
        spacing = min(max(2 * spacing_at(throttle, now), SLOW_SPACING_SECONDS), SPACING_SECONDS_MAX)
        slowed_at = now
    not_before = max(now + timedelta(seconds=min(retry_after_seconds, AHEAD_SECONDS_MAX)), told_before)
    return msgspec.structs.replace(throttle, spacing_seconds=spacing, slowed_at=slowed_at, not_before=not_before)


def spacing_at(throttle: Throttle, now: datetime) -> float:
    """The time between two calls, which shrinks while nobody is told to slow down."""
    if throttle.slowed_at is None:
        return 0.0
    quiet_seconds = (now - throttle.slowed_at).total_seconds()
    if quiet_seconds < -AHEAD_SECONDS_MAX:
        return 0.0
    quiet_seconds = max(0.0, quiet_seconds)
    spacing = throttle.spacing_seconds / 2.0 ** int(quiet_seconds / HALVED_AFTER_SECONDS)
    return spacing if spacing >= FORGOTTEN_SECONDS else 0.0
