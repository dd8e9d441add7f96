"""The catalogue of settings: what the structs of `model` say about each, found once when the module is imported."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from bus.settings.model import Settings
from bus.settings.secret import FORMS, SecretReference
from bus.settings.section import Section
from bus.settings.servers import GRAMMAR

PREFIX = "CALLBOARD_"
# A table of its own kind, which no variable and no flag could say: it stands in the file or nowhere.
TREE = "tree"
# The same name stands in several sections; a person can still choose from this many.
SUGGESTIONS_MAX = 3

AnySection = TypeVar("AnySection", bound=Section)
StandsFor = Literal["plain", "path", "url", "secret"]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting: `type` is what msgspec checks, `expected` the same in words, `default` None where there is none."""

    key: str
    type: Any
    stands_for: StandsFor
    expected: str
    choices: tuple[str, ...]
    default: object
    meaning: str

    @property
    def variable(self) -> str:
        """Its environment variable: `bus.tls.ca` is CALLBOARD_BUS_TLS_CA."""
        return PREFIX + self.key.replace(".", "_").upper()

    @property
    def may_be_empty(self) -> bool:
        """Whether "" is a value of it, and not only the way in which scripts unset a variable."""
        return self.stands_for == "secret" or self.default == ""

    @property
    def flag(self) -> str:
        """Its flag, where a command has one: `bus.tls.ca` is --bus-tls-ca."""
        return flag_name(self.key)


def flag_name(key: str) -> str:
    return "--" + key.replace(".", "-").replace("_", "-")


def list_settings(section: type[Section], prefix: str = "") -> Iterator[Setting]:
    """Every setting in `section` and the sections in it, in the order in which they are written."""
    for field in msgspec.structs.fields(section):
        if is_section(field.type):
            yield from list_settings(field.type, f"{prefix}{field.name}.")
        elif not holds_sections(field.type):
            default = None if field.default is msgspec.NODEFAULT else field.default
            yield _describe(prefix + field.name, field.type, default)


def build(section: type[AnySection], values: Mapping[str, object], prefix: str = "") -> AnySection:
    """The struct tree from values by key, all of which must be there."""
    parts: dict[str, object] = {}
    for field in msgspec.structs.fields(section):
        key = prefix + field.name
        parts[field.name] = build(field.type, values, f"{key}.") if is_section(field.type) else values[key]
    return section(**parts)


def is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def holds_sections(kind: object) -> bool:
    """Whether its values are sections that may be missing or repeated, so that no setting in them has a key."""
    return any(is_section(each) or holds_sections(each) for each in get_args(kind))


def suggest(text: str, known: Iterable[str], alike: float = 0.8) -> str:
    """`did you mean …?` with the nearest of `known`, or "" when none is near; `alike` is difflib's ratio."""
    folded = {_fold(each): each for each in known}
    near = difflib.get_close_matches(_fold(text), folded, n=1, cutoff=alike)
    # The right name in the wrong section is the other common slip.
    same_name = [each for each in folded if each.rpartition(".")[2] == _fold(text).rpartition(".")[2]]
    found = list(dict.fromkeys(folded[each] for each in [*near, *same_name]))[:SUGGESTIONS_MAX]
    return f"did you mean {' or '.join(found)}?" if found else ""


def _fold(text: str) -> str:
    return text.lower().replace("-", "_")


def _describe(key: str, annotated: Any, default: object) -> Setting:
    annotated = _without_none(annotated)
    kind, *metas = get_args(annotated) if hasattr(annotated, "__metadata__") else (annotated,)
    facts = _merge(metas)
    stands_for: StandsFor = "secret" if SecretReference in get_args(kind) else facts["extra"].get("stands_for", "plain")
    choices = tuple(str(each) for each in get_args(kind)) if get_origin(kind) is Literal else ()
    return Setting(
        key=key,
        type=annotated,
        stands_for=stands_for,
        expected=_expected(kind, stands_for, choices, facts),
        choices=choices,
        default=default,
        meaning=facts["description"],
    )


def _without_none(annotated: Any) -> Any:
    """What a setting may be when it is not left out."""
    return get_args(annotated)[0] if get_args(annotated)[1:] == (NoneType,) else annotated


def _merge(metas: list[msgspec.Meta]) -> dict[str, Any]:
    """All that the annotations say, the outermost last and so the one that counts."""
    facts: dict[str, Any] = {"description": "", "extra": {}, "pattern": None, "gt": None, "ge": None, "le": None}
    for meta in metas:
        facts |= {name: getattr(meta, name) for name in facts if getattr(meta, name) is not None}
    return facts


def _expected(kind: object, stands_for: StandsFor, choices: tuple[str, ...], facts: Mapping[str, Any]) -> str:
    if choices:
        return " or ".join(part for part in (", ".join(choices[:-1]), choices[-1]) if part)
    match stands_for:
        case "secret":
            return f"a reference to a secret: {FORMS}"
        case "url":
            return GRAMMAR
        case "path":
            return "a path"
        case "plain":
            return _expected_plain(kind, facts)


def _expected_plain(kind: object, facts: Mapping[str, Any]) -> str:
    if facts["pattern"]:
        return str(facts["extra"]["words"])
    if kind in (int, float):
        return _range("a whole number" if kind is int else "a number", facts)
    words: dict[object, str] = {str: "text", bool: "true or false"}
    return words[kind]  # A new type of setting needs its words here.


def _range(noun: str, facts: Mapping[str, Any]) -> str:
    least = f"over {facts['gt']}" if facts["gt"] is not None else f"from {facts['ge']}"
    return f"{noun} {least} up to {facts['le']}"


SETTINGS: Mapping[str, Setting] = {each.key: each for each in list_settings(Settings)}
SECTIONS: frozenset[str] = frozenset(key[:end] for key in SETTINGS for end in range(len(key)) if key[end] == ".")
