"""The server's configuration, in two files.

server.conf is fixed while the server runs: a reload that changes a port or a folder is refused as a whole.
identities.conf holds accounts, public keys and permissions, and can be replaced under a running server.
Values are written as JSON, which the server's own format includes.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bus.server.accounts import BUS, Account, Accounts, plan_accounts
from bus.server.permissions import plan_permissions
from bus.settings.model import KIB, MIB, Server
from protocol.subjects import Role, Subjects

CONFIG = "server.conf"
IDENTITIES = "identities.conf"
LOG = "server.log"
PID = "server.pid"
DATA = "data"

PORT_ANY = -1
HEADERS_BYTES_MAX = 64 * KIB
"""Room for headers beside the largest message."""
PENDING_BYTES_MIN = 64 * MIB
LOG_BYTES_MAX = 8 * MIB
LOG_FILES_MAX = 4
RESERVE_BYTES = 64 * MIB


def server_config(folder: Path, subjects: Subjects, settings: Server, port: int, message_bytes_max: int) -> bytes:
    """The text of server.conf."""
    payload = message_bytes_max + HEADERS_BYTES_MAX
    values: dict[str, object] = {
        "server_name": f"callboard-{subjects.project}",
        "listen": f"127.0.0.1:{port}",
        "ports_file_dir": str(folder),
        "pid_file": str(folder / PID),
        "log_file": str(folder / LOG),
        "logfile_size_limit": LOG_BYTES_MAX,
        "logfile_max_num": LOG_FILES_MAX,
        "max_payload": payload,
        "max_pending": max(PENDING_BYTES_MIN, 2 * payload),
        "jetstream": _jetstream(folder / DATA, settings),
    }
    lines = [f"{name}: {_spell(value)}" for name, value in values.items()]
    return "\n".join([*lines, f'include "{IDENTITIES}"', ""]).encode()


def identities_config(subjects: Subjects, keys: Mapping[Role, str], bus: str = BUS) -> bytes:
    """The text of identities.conf; a server of one's own can include the same, under a name of its own for `bus`."""
    plan = plan_accounts(subjects, bus)
    owners = {"jetstream": "enabled", "users": _users(plan.bus, subjects, keys), "exports": _exports(plan)}
    accounts: dict[str, object] = {plan.bus.name: owners}
    for account in plan.working:
        imports = [{wanted.way: {"account": bus, "subject": wanted.subject}} for wanted in account.imports]
        accounts[account.name] = {"users": _users(account, subjects, keys), "imports": imports}
    return b"accounts: %b\n" % msgspec.json.format(msgspec.json.encode(accounts))


def _users(account: Account, subjects: Subjects, keys: Mapping[Role, str]) -> list[dict[str, object]]:
    """What is not imported reaches nobody; it is forbidden as well, so that whoever tries is told."""
    users: list[dict[str, object]] = []
    for role in account.roles:
        allowed = plan_permissions(role, subjects)
        rules = {"publish": {"allow": allowed.publish}, "subscribe": {"allow": allowed.subscribe}}
        users.append({"nkey": keys[role], "permissions": rules})
    return users


def _exports(plan: Accounts) -> list[dict[str, object]]:
    exports: list[dict[str, object]] = []
    for export in plan.exports:
        many = {"response_type": "stream"} if export.has_many_answers else {}
        exports.append({export.way: export.subject, "accounts": export.accounts, **many})
    return exports


def free_bytes(folder: Path) -> int:
    """What this user may still write to the disk of `folder`."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _jetstream(store: Path, settings: Server) -> dict[str, object]:
    values: dict[str, object] = {"store_dir": str(store)}
    if settings.sync == "always":
        values["sync_interval"] = "always"
    values["max_file_store"] = settings.store_bytes_max or _all_but_a_reserve(store)
    return values


def _all_but_a_reserve(store: Path) -> int:
    """All that the disk can hold, less a reserve, so that the server refuses a write before the disk does.

    The server's own default is three quarters of what is free at its start, and counts what it has stored already
    against that: a store that has grown past the free space would come back from a restart as full.
    """
    stored = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    free = free_bytes(store.parent)
    return stored + free - min(RESERVE_BYTES, free // 8)


def _spell(value: object) -> str:
    return msgspec.json.encode(value).decode()
