"""Secrets: settings hold only where a secret is; its value is fetched at the edge and never shows itself."""

import importlib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from bus.settings.errors import SecretUnavailableError
from bus.settings.servers import BadServersError, parse_servers, secret_in_login

FORMS = "env:NAME, file:PATH or keyring:SERVICE/NAME"
SECRET_BYTES_MAX = 64 * 1024

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SecretReference(msgspec.Struct, frozen=True, kw_only=True):
    """Where a secret is. `url` is made by the loader alone: the login inside the URL that variable `name` holds."""

    kind: Literal["env", "file", "keyring", "url"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class SecretValue:
    """A secret that prints as asterisks; only `reveal()` gives it away, so call that in the line that needs it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "SecretValue(********)"


def parse_reference(text: str) -> SecretReference | None:
    """None when `text` has none of the three forms. It may then be a secret itself: do not print it."""
    kind, _, name = text.partition(":")
    match kind:
        case "env" if _VARIABLE.fullmatch(name):
            return SecretReference(kind="env", name=name)
        case "file" if name:
            return SecretReference(kind="file", name=name)
        case "keyring" if all(name.rpartition("/")):
            return SecretReference(kind="keyring", name=name)
        case _:
            return None


def resolve(secret: SecretReference, environ: Mapping[str, str], base: Path) -> SecretValue:
    """Fetch the secret now; `base` is where a relative `file:` starts (the loader makes all of them absolute).

    Raises SecretUnavailableError, also for a secret that is empty.
    """
    value = _fetch(secret, environ, base)
    if not value:
        raise SecretUnavailableError(str(secret), "is empty or not set", "put the secret there")
    return SecretValue(value)


def _fetch(secret: SecretReference, environ: Mapping[str, str], base: Path) -> str:
    match secret.kind:
        case "env":
            return environ.get(secret.name, "")
        case "file":
            return _read_private(secret, base / secret.name)
        case "keyring":
            return _ask_keyring(secret)
        case "url":
            return _login_secret(environ.get(secret.name, ""))


def _login_secret(url: str) -> str:
    try:
        return secret_in_login(parse_servers(url).login)
    except BadServersError:
        return ""  # Not the environment that the settings were loaded from; "not set" is what the caller reports.


def _read_private(secret: SecretReference, path: Path) -> str:
    """The file's text without the newline that editors add; refused when anyone but its owner may read it."""
    try:
        # Without O_NONBLOCK a named pipe would hold the command up before it can be refused.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123 (a descriptor)
            _refuse_unfit(secret, path, os.fstat(file.fileno()))
            return file.read().decode().rstrip("\r\n")
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise SecretUnavailableError(str(secret), reason, f"make {path} a file that you can read") from error
    except UnicodeDecodeError:
        # Not chained: the decoding error carries the file's bytes.
        raise SecretUnavailableError(str(secret), "is not UTF-8 text", f"write {path} as UTF-8") from None


def _refuse_unfit(secret: SecretReference, path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SecretUnavailableError(str(secret), "is not a regular file", "name a file")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise SecretUnavailableError(str(secret), f"is open to others (mode {mode:04o})", f"run: chmod 600 {path}")
    if found.st_size > SECRET_BYTES_MAX:
        raise SecretUnavailableError(str(secret), f"is over {SECRET_BYTES_MAX} bytes", "name the right file")


def _ask_keyring(secret: SecretReference) -> str:
    try:
        # Optional and slow to import, so only whoever uses it pays.
        keyring = importlib.import_module("keyring")
    except ImportError as error:
        fix = "run: pip install keyring, or use env: or file:"
        raise SecretUnavailableError(str(secret), "needs the keyring package, which is not installed", fix) from error
    service, _, name = secret.name.rpartition("/")
    try:
        return keyring.get_password(service, name) or ""
    except Exception as error:  # Each back end has errors of its own, and the module has no list of them.
        reason = f"was refused by the keyring ({type(error).__name__})"
        raise SecretUnavailableError(str(secret), reason, "unlock the keyring, or use env: or file:") from error
