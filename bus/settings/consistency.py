"""Settings that are right each by itself and wrong together."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bus.settings.catalogue import TREE
from bus.settings.errors import StateFolderError
from bus.settings.folders import refuse_state_inside
from bus.settings.tree import Group, TreeText, members
from protocol.machines import EDITIONS, MACHINES

# An election takes up to nine seconds, and no lease can be renewed during it.
CLUSTER_LEASE_SECONDS_MIN = 12


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that cannot all be meant."""

    keys: tuple[str, ...]
    what: str
    fix: str


def find_contradictions(values: Mapping[str, Any], root: Path) -> Iterator[Contradiction]:
    """Every contradiction among `values`, which has all settings by key."""
    yield from _logins(values)
    yield from _pair(values, "bus.user", "bus.password")
    yield from _pair(values, "bus.tls.cert", "bus.tls.key")
    yield from _replicas(values)
    if values["bus.buffered_bytes_max"] < values["bus.message_bytes_max"]:
        keys = ("bus.buffered_bytes_max", "bus.message_bytes_max")
        yield Contradiction(keys=keys, what="contradict: one message would not fit the buffer", fix="raise the first")
    yield from _team(values)
    yield from _state_folder(values, root)


def _logins(values: Mapping[str, Any]) -> Iterator[Contradiction]:
    ways = tuple(key for key in ("bus.credentials", "bus.user", "bus.token") if values[key])
    if len(ways) > 1:
        fix = 'keep one; "" takes one back that another source gives'
        yield Contradiction(keys=ways, what="are different ways to identify", fix=fix)


def _pair(values: Mapping[str, Any], first: str, second: str) -> Iterator[Contradiction]:
    if bool(values[first]) != bool(values[second]):
        missing = second if values[first] else first
        yield Contradiction(keys=(first, second), what="belong together", fix=f"set {missing} too")


def _replicas(values: Mapping[str, Any]) -> Iterator[Contradiction]:
    if values["bus.replicas"] == 1:
        return
    if not values["bus.url"]:
        what = "contradict: the embedded server is alone and keeps one copy"
        yield Contradiction(keys=("bus.replicas", "bus.url"), what=what, fix="set bus.url, or bus.replicas = 1")
    if values["bus.lease_seconds"] < CLUSTER_LEASE_SECONDS_MIN:
        what = "contradict: a cluster's election outlasts the lease"
        fix = f"set bus.lease_seconds to {CLUSTER_LEASE_SECONDS_MIN} or more"
        yield Contradiction(keys=("bus.replicas", "bus.lease_seconds"), what=what, fix=fix)


def _team(values: Mapping[str, Any]) -> Iterator[Contradiction]:
    tree: TreeText | None = values[TREE]
    edition = values["edition"]
    run = dict.fromkeys(each.runs for each in members(tree) if not isinstance(each, Group)) if tree else {}
    strangers = [runs for runs in run if runs in MACHINES and runs not in EDITIONS[edition]]
    if strangers:
        what = f"contradict: {' and '.join(strangers)} are not of the {edition} edition"
        yield Contradiction(keys=("edition", TREE), what=what, fix=f"its machines are {', '.join(EDITIONS[edition])}")


def _state_folder(values: Mapping[str, Any], root: Path) -> Iterator[Contradiction]:
    """Only a chosen one: the default is checked when it is used, for not every command does."""
    if not values["state_folder"]:
        return
    try:
        refuse_state_inside(Path(values["state_folder"]), root)
    except StateFolderError as error:
        yield Contradiction(keys=("state_folder",), what=error.reason, fix="choose a folder outside of it")
