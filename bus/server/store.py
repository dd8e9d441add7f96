"""Where the server keeps its streams: a folder for each account.

Before there were accounts (docs/adr/0011) everything was in the server's own default one, and an identities.conf of
that time is what a server of that time runs with.
"""

from pathlib import Path

import structlog

from bus.server.accounts import BUS
from bus.server.config import DATA, IDENTITIES

log = structlog.get_logger()

DEFAULT_ACCOUNT = "$G"


def is_without_accounts(folder: Path) -> bool:
    """Whether the server of this folder was configured by a version that had no accounts."""
    identities = folder / IDENTITIES
    return identities.exists() and not identities.read_bytes().startswith(b"accounts:")


def move_to_bus_account(folder: Path) -> None:
    """Take over what was stored without accounts; for when no server runs. Whatever the bus account has comes first."""
    older, current = (folder / DATA / "jetstream" / account for account in (DEFAULT_ACCOUNT, BUS))
    if not older.exists():
        return
    if current.exists():
        log.warning("server.store_left", older=str(older), current=str(current))
        return
    older.rename(current)
    log.info("server.store_moved", older=str(older), current=str(current))
