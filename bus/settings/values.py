"""From what a person wrote to the value of a setting: checked, paths made absolute, secrets left where they are."""

import json
from pathlib import Path
from typing import Literal

import msgspec

from bus.settings.catalogue import SETTINGS, Setting, suggest
from bus.settings.folders import project_name
from bus.settings.secret import SecretReference, parse_reference
from bus.settings.servers import BadServersError, parse_servers, redact_url

SHOWN_CHARACTERS_MAX = 80


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A value as somebody gave it; `source` is how to call its origin, `base` where its relative paths start."""

    setting: Setting
    value: object
    origin: Literal["file", "variable", "flag"]
    source: str
    base: Path
    home: str


class RefusedError(Exception):
    """A value that its setting does not take, and what to do; neither text ever has a secret in it."""

    def __init__(self, what: str, fix: str = "") -> None:
        self.what = what
        self.fix = fix
        super().__init__(what)


def read_value(given: Given) -> object:
    """The value for the struct. Raises RefusedError."""
    if given.setting.stands_for == "secret":
        return _read_secret(given)
    value = _convert(given)
    if not isinstance(value, str):
        return value
    _refuse_unprintable(value)
    match given.setting.stands_for:
        case "path":
            return _absolute(value, given)
        case "url":
            return _read_url(value, given)
        case _:
            return value


def show(value: object) -> str:
    """A value in a message: short, in one line, and nothing in it that a terminal would obey."""
    match value:
        case dict():
            return "a table"
        case list() | tuple():
            return "an array"
        case str() if not value.isprintable() or '"' in value:
            text = json.dumps(value)
        case str():
            text = f'"{value}"'
        case bool():
            text = str(value).lower()
        case _:
            text = str(value)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}…"


def show_key(key: str) -> str:
    """As it is where that is safe to print."""
    return key if key.isprintable() and len(key) < SHOWN_CHARACTERS_MAX else show(key)


def _convert(given: Given) -> object:
    setting, value = given.setting, given.value
    try:
        # A variable is text whatever it means; in the file, "3" for 3 is a mistake.
        return msgspec.convert(value, setting.type, strict=given.origin == "file")
    except msgspec.ValidationError:
        # Not chained: the message below says the same, and in the words of the documentation.
        raise RefusedError(f"must be {setting.expected}, not {show(value)}", _nearest(setting, value)) from None


def _nearest(setting: Setting, value: object) -> str:
    if not isinstance(value, str):
        return ""
    if setting.key == "project":
        return f"try {project_name(value)}"
    return suggest(value[:SHOWN_CHARACTERS_MAX], setting.choices, alike=0.6)


def _refuse_unprintable(value: str) -> None:
    """Control characters mean nothing in any setting; lone surrogates are what is left of bytes that are no UTF-8."""
    if any(ord(each) < 32 or ord(each) == 127 or 0xD800 <= ord(each) < 0xE000 for each in value):
        raise RefusedError("has control characters in it, or is not UTF-8", "write it again without them")


def _absolute(path: str, given: Given) -> str:
    if not path:
        return ""
    if path.startswith("~"):
        path = _expand_home(path, given.home)
    # Dots stay in the path: taking `..` away would be wrong behind a symbolic link.
    return str(given.base / path)


def _expand_home(path: str, home: str) -> str:
    if path.partition("/")[0] != "~":
        raise RefusedError(f"is {show(path)}, and only ~ itself is expanded", "write the whole path")
    if not Path(home).is_absolute():
        reason = f"is {show(home)}, which is no absolute path" if home else "is not set"
        raise RefusedError(f"begins with ~, and HOME {reason}", "write the whole path")
    return home + path[1:]


def _read_url(url: str, given: Given) -> str:
    """The servers without their login, which `loading` turns into a reference: no struct ever holds a secret."""
    try:
        servers = parse_servers(url)
    except BadServersError as error:
        raise RefusedError(f"must be {given.setting.expected}; {show(redact_url(url))} {error}") from None
    if servers.login and given.origin != "variable":
        raise RefusedError(
            f"has a login in it, {show(redact_url(url))}: {_SEEN_BY[given.origin]}",
            "set bus.user, and bus.password or bus.token to a reference such as env:NAME, or put this URL in NATS_URL",
        )
    return servers.url


def _read_secret(given: Given) -> SecretReference | None:
    """Whatever is not a reference may be the secret itself, so no message repeats the value."""
    setting, value = given.setting, given.value
    if value == "":
        return None
    reference = parse_reference(value) if isinstance(value, str) else None
    if reference is None:
        raise RefusedError(f"must be {setting.expected}, not the secret itself{_hint(given)}", _instead(given))
    _refuse_unprintable(reference.name)
    if reference.kind == "env" and reference.name in {each.variable for each in SETTINGS.values()}:
        raise RefusedError(f"refers to {reference.name}, which is a setting itself", "give the secret its own variable")
    if reference.kind == "file":
        return SecretReference(kind="file", name=_absolute(reference.name, given))
    return reference


_SEEN_BY = {
    "file": "the file is there for everyone who has the project",
    "flag": "everyone on this machine can see a command's arguments",
}


def _hint(given: Given) -> str:
    return f" ({_SEEN_BY[given.origin]})" if given.origin in _SEEN_BY else ""


def _instead(given: Given) -> str:
    example = {"variable": f"set {given.setting.variable}=env:NAME", "file": 'write "env:NAME" here'}
    return f"put the secret in a variable of its own, and {example.get(given.origin, 'give env:NAME')}"
