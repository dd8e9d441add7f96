"""What probes say of the APIs, and when those who are suspended may be restored; pure."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from bus.health import Health, Service
from protocol.messages import Instant


class HealthPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often an API is probed, and how soon it counts as healthy or no longer so."""

    interval_seconds: float = 30.0
    timeout_seconds: float = 10.0
    healthy_after: int = 2
    unhealthy_after: int = 2


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one probe has found: an error, or none."""

    at: Instant
    latency_ms: float
    error: str = ""


def observe(service: Service | None, name: str, outcome: Outcome, policy: HealthPolicy) -> Service:
    """The service after a probe. The first result decides at once, later only so many in a row."""
    successes = 0 if outcome.error else (service.successes if service else 0) + 1
    failures = (service.failures if service else 0) + 1 if outcome.error else 0
    if service is None:
        healthy = not outcome.error
    elif outcome.error:
        healthy = service.healthy and failures < policy.unhealthy_after
    else:
        healthy = service.healthy or successes >= policy.healthy_after
    # What made it unhealthy is shown until it is healthy again.
    earlier = service.error if service and not healthy else ""
    return Service(
        name=name,
        healthy=healthy,
        since=service.since if service and service.healthy == healthy else outcome.at,
        checked_at=outcome.at,
        latency_ms=outcome.latency_ms,
        error=outcome.error or earlier,
        successes=successes,
        failures=failures,
    )


def is_steady(health: Health, policy: HealthPolicy) -> bool:
    """Whether all services are healthy and have shown it so often in a row that an outage is over and no flicker."""
    return health.healthy and all(service.successes >= policy.healthy_after for service in health.services)


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A suspension: since when it says that it is, and since when at the latest by our own clock."""

    since: Instant
    at: Instant


def sight(before: Mapping[str, Sighting], suspended: Mapping[str, datetime], now: datetime) -> dict[str, Sighting]:
    """Each suspension with the time at which it was there at the latest: others' clocks may be ahead of ours.

    One that has begun anew since it was last seen is another, and was not there before now.
    """
    sightings = {name: Sighting(since=since, at=min(since, now)) for name, since in suspended.items()}
    return {
        name: before[name] if name in before and before[name].since == sighting.since else sighting
        for name, sighting in sightings.items()
    }


def may_restore(health: Health, newest_suspension: datetime | None, policy: HealthPolicy) -> bool:
    """Whether there is somebody to restore, and everything has been found well since the last of them suspended."""
    return newest_suspension is not None and health.at > newest_suspension and is_steady(health, policy)
