"""Tools and how the model is to use them. Pure."""

import re
from typing import Any

from actors.rehearsal.checking.caching import CACHED
from actors.rehearsal.checking.shapes import (
    a_boolean,
    a_list,
    a_text,
    an_object,
    anything,
    each,
    has_fields,
    one_of,
    or_null,
    refuse,
)
from actors.rehearsal.errors import RefusedError
from actors.rehearsal.models import Model
from actors.rehearsal.prompt import Json, thinking_type

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_CHOICES: dict[str, dict[str, Any]] = {
    "auto": {"disable_parallel_tool_use": a_boolean},
    "any": {"disable_parallel_tool_use": a_boolean},
    "tool": {"disable_parallel_tool_use": a_boolean},
    "none": {},
}


def a_tool(place: str, value: Any) -> None:
    """A tool of the client's; the server's own tools are not there."""
    an_object(place, value)
    if value.get("type") not in (None, "custom"):
        refuse(
            place, f"Input tag {value['type']!r} found using 'type' does not match any of the expected tags: 'custom'"
        )
    place = f"{place}.custom"
    has_fields(
        place,
        value,
        {"name": a_text, "input_schema": _a_schema},
        {
            "type": or_null(one_of("custom")),
            "description": a_text,
            "strict": a_boolean,
            "defer_loading": a_boolean,
            "eager_input_streaming": or_null(a_boolean),
            "allowed_callers": each(a_text),
            "input_examples": each(an_object),
            **CACHED,
        },
    )
    if not _NAME.fullmatch(value["name"]):
        refuse(f"{place}.name", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")
    if value.get("strict") and value["input_schema"].get("additionalProperties") is not False:
        refuse(f"{place}.input_schema", "For 'object' type, 'additionalProperties' must be explicitly set to false")


def _a_schema(place: str, value: Any) -> None:
    an_object(place, value)
    if "type" not in value:
        refuse(f"{place}.type", "Field required")
    if value["type"] != "object":
        refuse(f"{place}.type", "Input should be 'object'")
    _a_subschema(place, value)


def _a_subschema(place: str, value: Any) -> None:
    """As far as a mistake is likely: that properties are schemas of known types and what is required are names."""
    if isinstance(value, bool):
        return
    an_object(place, value)
    types = value.get("type", [])
    for name in types if isinstance(types, list) else [types]:
        if name not in _TYPES:
            _bad_schema(place, f"{name!r} is not a type")
    properties, required = value.get("properties"), value.get("required")
    if properties is not None and not isinstance(properties, dict):
        _bad_schema(place, "properties is not an object")
    for name, schema in (properties or {}).items():
        _a_subschema(f"{place}.properties.{name}", schema)
    if required is not None and not (isinstance(required, list) and all(isinstance(name, str) for name in required)):
        _bad_schema(place, "required is not an array of strings")
    if "items" in value:
        _a_subschema(f"{place}.items", value["items"])


def _bad_schema(place: str, why: str) -> None:
    refuse(
        place,
        f"JSON schema is invalid ({why}). It must match JSON Schema draft 2020-12 "
        "(https://json-schema.org/draft/2020-12). Learn more about tool use at "
        "https://docs.claude.com/en/docs/tool-use.",
    )


def a_tool_choice(place: str, value: Any) -> None:
    """How the model is to use its tools."""
    an_object(place, value)
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _CHOICES:
        refuse(
            place,
            f"Input tag {kind!r} found using 'type' does not match any of the expected tags: "
            "'auto', 'any', 'tool', 'none'",
        )
    name = {"name": a_text} if kind == "tool" else {}
    has_fields(f"{place}.{kind}", value, {"type": anything, **name}, _CHOICES[str(kind)])


def check_tools(body: Json, model: Model) -> None:
    """Refuse tools that cannot be told apart, and a choice that cannot be made."""
    a_list("tools", body.get("tools", []))
    names = [tool["name"] for tool in body.get("tools", [])]
    if len(set(names)) < len(names):
        raise RefusedError("tools: Tool names must be unique.")
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not names:
        raise RefusedError("tool_choice: tool_choice may only be specified while providing tools")
    if choice["type"] == "tool" and choice["name"] not in names:
        raise RefusedError(f"tool_choice.tool.name: Tool '{choice['name']}' not found in provided tools")
    if choice["type"] in ("any", "tool") and thinking_type(body, model.thinks_unasked) in ("adaptive", "enabled"):
        raise RefusedError("Thinking may not be enabled when tool_choice forces tool use.")
