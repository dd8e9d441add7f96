"""What must not be printed: every secret that an environment and the settings lead to.

For a process that takes them out of what it logs. Best effort throughout: what cannot be fetched is no secret that
could be printed, and whoever needs it says what is wrong with it.
"""

import re
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from urllib.parse import urlsplit

from bus.settings.catalogue import SETTINGS
from bus.settings.errors import SecretUnavailableError
from bus.settings.loading import URL_VARIABLES, Loaded
from bus.settings.secret import SECRET_BYTES_MAX, SecretReference, parse_reference, resolve
from bus.settings.servers import logins_in, secret_in_login

KEY_FILES = ("bus.credentials", "bus.tls.key")
"""Settings that name a file in which there is a secret."""

_TELLING_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_OURS = {setting.variable: setting for setting in SETTINGS.values()}


def environment_secrets(environ: Mapping[str, str]) -> set[str]:
    """Values of variables whose names say that they are secret, and what stands in a URL before the @."""
    found = {value for name, value in environ.items() if _TELLING_NAME.search(name) and not _says_where(name, value)}
    for name, value in environ.items():
        for login in logins_in(value) if name in URL_VARIABLES else _logins_of_url(value):
            found.update((secret_in_login(login), login.partition(":")[2] or login))
    return found - {""}


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """What of an environment a program may have that needs none of our secrets."""
    return {name: value for name, value in environ.items() if not environment_secrets({name: value})}


def settings_secrets(loaded: Loaded, environ: Mapping[str, str]) -> set[str]:
    """The values of all secrets that the settings refer to; of a key file its whole text. Reads files and keyring."""
    return set(_referred(loaded, environ)) | set(_in_key_files(loaded))


def _referred(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[str]:
    for key in SETTINGS:
        value = _value(loaded, key)
        if isinstance(value, SecretReference):
            try:
                yield resolve(value, environ, loaded.root).reveal()
            except SecretUnavailableError:
                continue


def _in_key_files(loaded: Loaded) -> Iterator[str]:
    for key in KEY_FILES:
        path = _value(loaded, key)
        if path:
            try:
                with Path(str(path)).open("rb") as file:
                    yield file.read(SECRET_BYTES_MAX).decode(errors="replace")
            except OSError:
                continue


def _value(loaded: Loaded, key: str) -> object:
    return reduce(getattr, key.split("."), loaded.settings)


def _says_where(name: str, value: str) -> bool:
    """Whether it is a variable of our own that holds a path or a reference, which messages must be able to name."""
    setting = _OURS.get(name)
    return setting is not None and (setting.stands_for != "secret" or parse_reference(value) is not None)


def _logins_of_url(value: str) -> list[str]:
    try:
        login, at, _ = urlsplit(value).netloc.rpartition("@")
    except ValueError:
        return []
    return [login] if at else []
