"""Which account of the server each role is in, and what passes between accounts: pure, as the permissions are.

The server checks the subject of a publish, and never the subject that is to get the answer. In one account for all, a
role could have the server write what it can read, or an acknowledgement, to any subject (docs/adr/0011). Here each
working role has an account of its own, with nothing in it but what it imports from the bus account, and an answer
that crosses the border is delivered among the subjects of whoever asked.
"""

from typing import Literal

import msgspec

from bus.server.permissions import API, OWNERS, plan_permissions
from protocol.subjects import ROLES, Role, Subjects

BUS = "CALLBOARD"
"""The account that has the streams; the server's folder for them has this name too."""

API_INFO = f"{API}.INFO"
"""The server answers every call of its API in an account without streams by an error of its own, beside the answer that
comes from the bus account, unless this call is imported: by that it knows that the account uses another's streams."""

Way = Literal["service", "stream"]
"""In the server's words: what others may send to, and what they may listen to."""


class Import(msgspec.Struct, frozen=True):
    """One subject of the bus account that an account may use as if it were its own."""

    way: Way
    subject: str


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """One subject of the bus account, and the accounts that may import it."""

    way: Way
    subject: str
    accounts: tuple[str, ...]

    @property
    def has_many_answers(self) -> bool:
        """Whether a question has more answers than the first, which is all that the server forwards by default."""
        return self.subject.startswith(f"{API}.DIRECT.GET.")


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """An account, and the roles whose keys are in it."""

    name: str
    roles: tuple[Role, ...]
    imports: tuple[Import, ...] = ()


class Accounts(msgspec.Struct, frozen=True, kw_only=True):
    """The bus account, which has the streams and their owners, and one account for each working role."""

    bus: Account
    working: tuple[Account, ...]

    @property
    def exports(self) -> tuple[Export, ...]:
        """What the bus account lets the others use: what one of them imports, and for that one alone."""
        users: dict[Import, list[str]] = {}
        for account in self.working:
            for wanted in account.imports:
                users.setdefault(wanted, []).append(account.name)
        return tuple(Export(way=each.way, subject=each.subject, accounts=tuple(names)) for each, names in users.items())


def plan_accounts(subjects: Subjects, bus: str = BUS) -> Accounts:
    """The accounts of a project; on a server that has several projects each needs a name of its own."""
    return Accounts(
        bus=Account(name=bus, roles=OWNERS),
        working=tuple(
            Account(name=f"{bus}_{role.upper()}", roles=(role,), imports=_imports(role, subjects))
            for role in ROLES
            if role not in OWNERS
        ),
    )


def _imports(role: Role, subjects: Subjects) -> tuple[Import, ...]:
    """All that a role may say and hear, but for its inboxes, which are in its own account."""
    allowed = plan_permissions(role, subjects)
    inbox = f"{subjects.inbox(role)}.>"
    said = (Import("service", subject) for subject in allowed.publish)
    heard = (Import("stream", subject) for subject in allowed.subscribe if subject != inbox)
    return (Import("service", API_INFO), *said, *heard)
