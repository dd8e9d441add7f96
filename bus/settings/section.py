"""What sections are made of: their base, and the kinds of values that several of them have."""

from typing import Annotated

from msgspec import Meta, Struct

from protocol.subjects import TOKEN_LENGTH_MAX, TOKEN_PATTERN

HOUR_SECONDS = 3600
POOL_SIZE_MAX = 500

_NAME = r"[^\W\d]\w*"
_PLACE = rf"{_NAME}(\.{_NAME})*:{_NAME}"
PARTS_PATTERN = rf"\A({_PLACE}(, *{_PLACE})*)?\Z"

# Zero and NaN fail `gt`; infinity fails `le`.
Seconds = Annotated[float, Meta(gt=0, le=HOUR_SECONDS)]
# `words` say what a pattern takes.
TokenText = Annotated[
    str, Meta(pattern=rf"\A{TOKEN_PATTERN}\Z", extra={"words": f"1 to {TOKEN_LENGTH_MAX} of a-z, 0-9, - and _"})
]
PartText = Annotated[str, Meta(pattern=rf"\A({_PLACE})?\Z", extra={"words": "MODULE:NAME"})]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all sections. Values are checked when they are loaded, not when a struct is made by hand."""
