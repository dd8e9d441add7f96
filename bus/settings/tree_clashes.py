"""Members of the tree that are right each by itself and cannot be there together."""

import re
from collections.abc import Iterator, Sequence

from bus.settings.tree import ROOT, Actor, Member, Pool, Service, role_of
from bus.settings.values import show
from protocol.subjects import ALL

RESERVED = (ROOT, "supervisor")
"""The root is called so, and the supervisor's own log."""


def find_clashes(read: Sequence[tuple[str, Member]]) -> Iterator[tuple[str, str, str]]:
    """For each clash the key that is wrong, what is wrong, and the key of the other, if it has one."""
    taken: dict[str, str] = {}
    for key, member in read:
        for owned, what in _owns(key, member):
            if what in taken:
                yield owned, f"is {what} a second time", taken[what]
            taken.setdefault(what, owned)
    yield from _reserved(read)


def _owns(key: str, member: Member) -> Iterator[tuple[str, str]]:
    """What only one in the tree can have."""
    yield f"{key}.name", f"the name {show(member.name)}"
    match member:
        case Service(runs=runs):
            yield f"{key}.runs", show(runs)
        case Actor(runs=runs, id=actor):
            yield f"{key}.id", f"the actor {role_of(runs)}.{actor}"
        case Pool(runs=runs):
            yield f"{key}.runs", f"the pool of {role_of(runs)}s"


def _reserved(read: Sequence[tuple[str, Member]]) -> Iterator[tuple[str, str, str]]:
    """Names that are somebody's though nobody in the table has them: however large a pool grows, its members' too."""
    pools = {role_of(member.runs): f"{key}.runs" for key, member in read if isinstance(member, Pool)}
    for key, member in read:
        if member.name in RESERVED:
            yield f"{key}.name", f"cannot be {show(member.name)}, which is a name of the supervisor's own", ""
        if isinstance(member, Actor) and member.id == ALL:
            yield f"{key}.id", f"cannot be {show(ALL)}, which stands for everybody", ""
        numbered = re.fullmatch(r"(.+)-[1-9]\d*", member.name)
        if numbered and numbered[1] in pools:
            yield (
                f"{key}.name",
                f"is {show(member.name)}, as the pool of {numbered[1]}s calls its own",
                pools[numbered[1]],
            )
