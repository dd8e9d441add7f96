"""From the settings to the plan of the whole company, pure; and how large its pools are."""

from collections.abc import Mapping
from typing import cast

from bus.settings.model import Settings
from bus.settings.section import POOL_SIZE_MAX
from bus.settings.tree import (
    ROOT,
    Actor,
    Group,
    Member,
    Pool,
    Service,
    Supervising,
    TreeText,
    default_tree,
    members,
    role_of,
)
from supervisors.core.plans import Backoff, Budget, Child, Plan, Restart, Supervisor
from supervisors.errors import ScaleError


def plan_of(settings: Settings, sizes: Mapping[str, int] = {}) -> Supervisor:
    """Who should run. `sizes` has how many of a role there are where somebody has scaled them; other roles are ignored.

    Whoever is in the plans for two sizes is the same in both: a pool grows and shrinks at its end.
    """
    tree = tree_of(settings)
    return _supervisor(ROOT, "permanent", tree, _children(tree, settings, pool_sizes(settings, sizes)))


def tree_of(settings: Settings) -> TreeText:
    """The tree that the settings give, or their edition's."""
    return settings.tree or default_tree(settings.edition)


def pool_sizes(settings: Settings, sizes: Mapping[str, int] = {}) -> dict[str, int]:
    """How many of each role there are, of those that are in a pool; `sizes` as in `plan_of`."""
    pools = [member for member in members(tree_of(settings)) if isinstance(member, Pool)]
    written = {role_of(pool.runs): settings.supervisor.coders if pool.size is None else pool.size for pool in pools}
    return {role: sizes.get(role, size) for role, size in written.items()}


def scale(settings: Settings, sizes: Mapping[str, int], role: str, size: int) -> dict[str, int]:
    """`sizes` once there are so many of a role. ScaleError: it is in no pool, or a pool cannot have so many."""
    roles = pool_sizes(settings)
    if role not in roles:
        known = f"there is no pool of that role, only of {' and '.join(roles)}" if roles else "the tree has no pool"
        raise ScaleError(role, size, known)
    if not 0 <= size <= POOL_SIZE_MAX:
        raise ScaleError(role, size, f"a pool has 0 to {POOL_SIZE_MAX}")
    return {**sizes, role: size}


def _children(supervisor: TreeText | Group, settings: Settings, sizes: Mapping[str, int]) -> tuple[Plan, ...]:
    return tuple(_plan(member, settings, sizes) for member in supervisor.children if _is_ours(member, settings))


def _is_ours(member: Member, settings: Settings) -> bool:
    """Whoever brings a broker of their own keeps it alive, too."""
    return not (isinstance(member, Service) and member.runs == "broker" and settings.bus.url)


def _plan(member: Member, settings: Settings, sizes: Mapping[str, int]) -> Plan:
    match member:
        case Service():
            return Child(name=member.name, runs=member.runs, restart=member.restart)
        case Actor():
            return _actor(member, member.name, member.id, settings)
        case Pool():
            role = role_of(member.runs)
            names = [f"{role}-{number}" for number in range(1, sizes[role] + 1)]
            return _supervisor(
                member.name, "permanent", member, tuple(_actor(member, name, name, settings) for name in names)
            )
        case Group():
            return _supervisor(member.name, member.restart, member, _children(member, settings, sizes))


def _actor(member: Actor | Pool, name: str, actor: str, settings: Settings) -> Child:
    part = member.part or cast(str, getattr(settings.parts, member.runs.replace("-", "_")))
    return Child(name=name, runs=member.runs, actor=actor, part=part, restart=member.restart)


def _supervisor(name: str, restart: Restart, settings: Supervising, children: tuple[Plan, ...]) -> Supervisor:
    return Supervisor(
        name=name,
        children=children,
        strategy=settings.strategy,
        restart=restart,
        in_order=settings.in_order,
        budget=Budget(failures_max=settings.failures_max, seconds=settings.failures_seconds),
        backoff=Backoff(first_seconds=settings.pause_seconds, seconds_max=settings.pause_seconds_max),
    )
