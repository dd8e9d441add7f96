"""Which fields an object has and what they hold, refused in the API's words. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from actors.rehearsal.errors import RefusedError
from actors.rehearsal.prompt import Json

Kind = Callable[[str, Any], None]
"""Refuses a value that is none of its kind, naming the place."""
INTEGER_MAX = 2**53


def has_fields(place: str, value: Any, required: Mapping[str, Kind], optional: Mapping[str, Kind]) -> Json:
    """Refuse what is no object, lacks a field, or has one that there is not; returns the object."""
    an_object(place, value)
    for name in required:
        if name not in value:
            refuse(below(place, name), "Field required")
    for name, found in value.items():
        kind = required.get(name) or optional.get(name) or _refuse_extra
        kind(below(place, name), found)
    checked: Json = value
    return checked


def refuse(place: str, why: str) -> Any:
    """Refuse what stands at a place."""
    raise RefusedError(f"{place}: {why}")


def below(place: str, name: str | int) -> str:
    """The place of a field or an element."""
    return f"{place}.{name}" if place else str(name)


def an_object(place: str, value: Any) -> None:
    """Any object."""
    if not isinstance(value, dict):
        refuse(place or "body", "Input should be a valid dictionary")


def a_list(place: str, value: Any) -> None:
    """Any array."""
    if not isinstance(value, list):
        refuse(place, "Input should be a valid list")


def a_text(place: str, value: Any) -> None:
    """Any string."""
    if not isinstance(value, str):
        refuse(place, "Input should be a valid string")


def an_integer(place: str, value: Any) -> None:
    """A whole number that a program can count with."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > INTEGER_MAX:
        refuse(place, "Input should be a valid integer")


def a_boolean(place: str, value: Any) -> None:
    """True or false."""
    if not isinstance(value, bool):
        refuse(place, "Input should be a valid boolean")


def one_of(*words: str) -> Kind:
    """One of some words."""

    def check(place: str, value: Any) -> None:
        if value not in words:
            *most, last = (repr(word) for word in words)
            refuse(place, f"Input should be {', '.join(most)} or {last}" if most else f"Input should be {last}")

    return check


def or_null(kind: Kind) -> Kind:
    """That, or null."""

    def check(place: str, value: Any) -> None:
        if value is not None:
            kind(place, value)

    return check


def each(kind: Kind) -> Kind:
    """An array of those."""

    def check(place: str, value: Any) -> None:
        a_list(place, value)
        for index, element in enumerate(value):
            kind(below(place, index), element)

    return check


def _refuse_extra(place: str, _value: Any) -> None:
    refuse(place, "Extra inputs are not permitted")


def anything(_place: str, _value: Any) -> None:
    """What nobody looks at."""
