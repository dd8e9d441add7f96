"""Plans of streams and consumers as the server's JSON, and what differs between a plan and what exists."""

from typing import Any

from bus.broker import ConsumerPlan, StreamPlan

_NANOSECONDS = 1_000_000_000

CONSUMERS_MAX = 100_000
"""Each session has one. Server 2.15 allows a stream only 1 000 unless it says otherwise, and -1 does not lift that."""


def stream_config(plan: StreamPlan) -> dict[str, Any]:
    """The server's configuration for a stream; everything we rely on is said, nothing is left to a default."""
    config: dict[str, Any] = {
        "name": plan.name,
        "subjects": list(plan.subjects),
        "retention": plan.retention,
        "storage": "file",
        "discard": "new",  # an old message is never thrown away to make room: the writer is told instead
        "max_msgs_per_subject": plan.per_subject_max,
        "max_age": round(plan.age_max_seconds * _NANOSECONDS),
        "max_bytes": plan.bytes_max,
        "max_consumers": CONSUMERS_MAX,
        "num_replicas": plan.replicas,
        "duplicate_window": round(plan.duplicate_window_seconds * _NANOSECONDS),
        "allow_direct": True,
        "allow_msg_ttl": plan.message_ttl,
        "allow_rollup_hdrs": plan.rollup,
        "deny_delete": plan.deny_delete,
    }
    if plan.age_max_seconds or plan.per_subject_max > 0:
        config["discard"] = "old"
    if plan.repeat_from:
        config["republish"] = {
            "src": plan.repeat_from,
            "dest": plan.repeat_to,
            "headers_only": plan.repeat_headers_only,
        }
    return config


def consumer_config(plan: ConsumerPlan) -> dict[str, Any]:
    """The server's configuration for a durable pull consumer."""
    return {
        "durable_name": plan.name,
        "name": plan.name,
        "filter_subject": plan.filter,
        "ack_policy": "explicit",
        "deliver_policy": "all",
        "ack_wait": round(plan.ack_wait_seconds * _NANOSECONDS),
        "max_ack_pending": plan.ack_pending_max,
        "max_deliver": plan.deliveries_max,
    }


def differing_keys(wanted: dict[str, Any], found: dict[str, Any]) -> tuple[str, ...]:
    """The settings in which what exists is not what is wanted; the server leaves out what is false or zero."""
    return tuple(sorted(key for key, value in wanted.items() if not _same(value, found.get(key))))


def _same(wanted: object, found: object) -> bool:
    if isinstance(wanted, dict) and isinstance(found, dict):
        return not differing_keys(wanted, found)
    return wanted == found or (not wanted and not found)
