"""What a project has on its broker: streams, buckets and the shared consumer, as plans.

Applying them twice does nothing; applying changed ones migrates. `differences` is what a doctor prints.
"""

from collections.abc import Iterator

import msgspec

from bus.broker import Broker, ConsumerPlan, StreamPlan
from protocol.subjects import MAIL_KINDS, ROLES, Subjects

EVENT_AGE_SECONDS = 30 * 24 * 3600.0
WORK_PENDING_MAX = 1000

LEASES = "leases"
BOARD = "board"
OBJECTS = "objects"


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """All that a project expects of its broker."""

    streams: tuple[StreamPlan, ...]
    consumers: tuple[ConsumerPlan, ...]


def plan_topology(subjects: Subjects, *, replicas: int = 1, ack_wait_seconds: float = 60.0) -> Topology:
    """The plans of one project."""
    streams = (*_record_streams(subjects), *_mail_streams(subjects), *_buckets(subjects))
    work = ConsumerPlan(
        stream=subjects.stream("WORK"),
        name=subjects.work_consumer("coder"),
        filter=subjects.every("work", "coder"),
        ack_wait_seconds=ack_wait_seconds,
        ack_pending_max=WORK_PENDING_MAX,
    )
    return Topology(
        streams=tuple(msgspec.structs.replace(plan, replicas=replicas) for plan in streams), consumers=(work,)
    )


def _record_streams(subjects: Subjects) -> Iterator[StreamPlan]:
    """What is kept: journals, ledger and control (its sequence is a generation) for ever, events for a month."""
    yield StreamPlan(
        name=subjects.stream("JOURNAL"),
        subjects=(subjects.every("journal"),),
        repeat_from=subjects.every("journal"),
        repeat_to=subjects.live("journal"),
        repeat_headers_only=True,
        deny_delete=True,
    )
    yield StreamPlan(
        name=subjects.stream("LEDGER"),
        subjects=(subjects.every("ledger"),),
        repeat_from=subjects.every("ledger"),
        repeat_to=subjects.live("ledger"),
        repeat_headers_only=True,
        deny_delete=True,
    )
    yield StreamPlan(
        name=subjects.stream("CONTROL"),
        subjects=(subjects.every("control"),),
        repeat_from=subjects.every("control"),
        repeat_to=subjects.live("control"),
    )
    yield StreamPlan(
        name=subjects.stream("EVENTS"),
        subjects=(subjects.every("event"),),
        age_max_seconds=EVENT_AGE_SECONDS,
        repeat_from=subjects.every("event"),
        repeat_to=subjects.live("event"),
        repeat_headers_only=True,
    )
    advisories = (subjects.delivery_limit_advisories(stream) for stream in watched_streams(subjects))
    yield StreamPlan(name=subjects.stream("DEAD"), subjects=(subjects.every("dead"), *advisories))


def watched_streams(subjects: Subjects) -> tuple[str, ...]:
    """The streams whose undeliverable messages become dead letters."""
    return (subjects.stream("WORK"), *(subjects.mail_stream(role) for role in ROLES))


def _mail_streams(subjects: Subjects) -> Iterator[StreamPlan]:
    """What is kept until it is acknowledged."""
    yield StreamPlan(name=subjects.stream("WORK"), subjects=(subjects.every("work"),), retention="workqueue")
    for role in ROLES:
        kinds = tuple(subjects.every(kind, role) for kind in MAIL_KINDS)
        yield StreamPlan(name=subjects.mail_stream(role), subjects=kinds, retention="workqueue")


def _buckets(subjects: Subjects) -> Iterator[StreamPlan]:
    """Buckets and the object store, in the shapes that other NATS clients know."""
    yield StreamPlan(
        name=subjects.key_stream(LEASES),
        subjects=(subjects.every_key(LEASES),),
        per_subject_max=1,
        message_ttl=True,
        deny_delete=True,
    )
    yield StreamPlan(
        name=subjects.key_stream(BOARD),
        subjects=(subjects.every_key(BOARD),),
        per_subject_max=1,
        deny_delete=True,
        repeat_from=subjects.every_key(BOARD),
        repeat_to=subjects.live_board,
        repeat_headers_only=True,
    )
    yield StreamPlan(name=subjects.object_stream(OBJECTS), subjects=subjects.every_object(OBJECTS), rollup=True)


async def apply_topology(broker: Broker, topology: Topology) -> tuple[str, ...]:
    """Create or migrate whatever is missing or different; returns the names of what was touched."""
    touched = [plan.name for plan in topology.streams if await broker.ensure_stream(plan)]
    touched += [plan.name for plan in topology.consumers if await broker.ensure_consumer(plan)]
    return tuple(touched)


async def check_topology(broker: Broker, topology: Topology) -> tuple[str, ...]:
    """How what exists differs from what is expected, in words; changes nothing."""
    plans: tuple[StreamPlan | ConsumerPlan, ...] = (*topology.streams, *topology.consumers)
    return tuple([difference for plan in plans for difference in await broker.differences(plan)])
