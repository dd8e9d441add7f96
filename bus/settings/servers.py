"""Server URLs: their grammar, the login that one may carry, and how to show one in a log."""

import re
from urllib.parse import unquote

import msgspec

GRAMMAR = "nats://HOST:PORT or tls://HOST:PORT (several with commas between)"

_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_SERVER = re.compile(rf"(?P<scheme>nats|tls)://(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?/?")
_NEXT_SERVER = re.compile(r",(?=\s*[A-Za-z][A-Za-z0-9+.-]*://)")
_SCHEME = re.compile(r"\s*(?:[A-Za-z][A-Za-z0-9+.-]*://)?")


class Servers(msgspec.Struct, frozen=True, kw_only=True):
    """What a URL says: `url` has the servers alone, comma-separated, each with its scheme; `login` is as it stood."""

    url: str
    login: str = ""


class BadServersError(ValueError):
    """Text that is no server URL. Carries only the reason: the text may hold a password."""


def parse_servers(text: str) -> Servers:
    """Raises BadServersError. "" is no server at all: the embedded one. Without a scheme, nats:// is meant.

    One login serves all servers, whichever of them carries it.
    """
    if not text:
        return Servers(url="")
    pairs = [_split_server(piece) for piece in _NEXT_SERVER.split(text)]
    logins = {login for login, _ in pairs if login}
    if len(logins) > 1:
        raise BadServersError("has different logins for its servers")
    if any("," in login for login in logins):
        raise BadServersError("has a comma before an @ (in a password write %2C; give each server its scheme)")
    servers = [_check_server(server) for _, rest in pairs for server in rest.split(",")]
    return Servers(url=",".join(servers), login="".join(logins))


def _split_server(piece: str) -> tuple[str, str]:
    """Login and the rest. The last @ counts: a password may well contain one, a host may not."""
    piece = piece.strip()
    scheme_end = _end_of_scheme(piece)
    login, _, rest = piece[scheme_end:].rpartition("@")
    return login, piece[:scheme_end] + rest


def _check_server(url: str) -> str:
    url = url.strip()
    found = _SERVER.fullmatch(url if "://" in url else f"nats://{url}")
    if not found or (found["port"] and not 0 < int(found["port"]) < 65536):
        raise BadServersError("is not a server URL")
    port = f":{found['port']}" if found["port"] else ""
    return f"{found['scheme']}://{found['host']}{port}"


def user_in_login(login: str) -> str:
    """The user's name, or "" where the login is a lone token or there is none."""
    user, colon, _ = login.partition(":")
    return unquote(user) if colon else ""


def secret_in_login(login: str) -> str:
    """The password or the lone token; "" where there is none."""
    user, colon, password = login.partition(":")
    return unquote(password if colon else user)


def logins_in(url: str) -> list[str]:
    """Every login in any text at all, valid or not, as it stands there."""
    return [login for piece in _NEXT_SERVER.split(url) if (login := _split_server(piece)[0])]


def redact_url(url: str) -> str:
    """For logs: any text at all, valid or not, without what stands before an @ or after a ?."""
    return ",".join(_redact_one(piece) for piece in _NEXT_SERVER.split(url))


def _redact_one(piece: str) -> str:
    scheme_end = _end_of_scheme(piece)
    # A user without a password is a token to NATS, so the whole login goes.
    _, at, rest = piece[scheme_end:].rpartition("@")
    return piece[:scheme_end] + ("***@" if at else "") + re.split(r"[?#]", rest)[0]


def _end_of_scheme(piece: str) -> int:
    found = _SCHEME.match(piece)
    assert found is not None  # It matches nothing, too.
    return found.end()
