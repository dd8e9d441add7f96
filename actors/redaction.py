"""Keeping secrets out of logs and journals, whoever puts them into a text.

Known are the values of this process's own secrets: what its settings refer to, and what its environment holds under
a name that says so. What merely looks like a key of a known make is hidden too.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

HIDDEN = "[secret]"
SECRET_LENGTH_MIN = 6
_TELLING_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)", re.IGNORECASE)
_LOOKS_LIKE_A_KEY = re.compile(r"sk-ant-[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{20,}|S[UA][A-Z2-7]{56}")

_known: set[str] = set()


def remember_secrets(values: Iterable[str]) -> None:
    """Hide these from now on, everywhere in this process; what is too short to be a secret would hide too much."""
    _known.update(value for value in values if len(value) >= SECRET_LENGTH_MIN)


def secrets_in(environ: Mapping[str, str]) -> list[str]:
    """The values of variables whose names say that they are secret."""
    return [value for name, value in environ.items() if _TELLING_NAME.search(name)]


def redact(text: str) -> str:
    """The text without secrets."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _LOOKS_LIKE_A_KEY.sub(HIDDEN, text)


def redact_all(value: Any) -> Any:
    """As `redact`, for every text in a structure of lists and dicts."""
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {key: redact_all(each) for key, each in value.items()}
        case list() | tuple():
            return [redact_all(each) for each in value]
        case bytes():
            return redact(value.decode(errors="backslashreplace"))
        case bool() | int() | float() | None:
            return value
        case _:
            return redact(str(value))
