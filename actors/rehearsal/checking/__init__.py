"""What the API refuses, each with its own 400 (or 404), before any part is asked. Pure."""

from collections.abc import Mapping
from typing import Any

from actors.rehearsal.checking.caching import a_cache_control, check_breakpoints
from actors.rehearsal.checking.messages import a_message, a_system, check_turns
from actors.rehearsal.checking.shapes import (
    Kind,
    a_boolean,
    a_text,
    an_integer,
    an_object,
    anything,
    each,
    has_fields,
    one_of,
    or_null,
    refuse,
)
from actors.rehearsal.checking.thinking import a_thinking, check_thinking, check_thoughts
from actors.rehearsal.checking.tools import a_tool, a_tool_choice, check_tools
from actors.rehearsal.errors import RefusedError
from actors.rehearsal.models import EFFORTS, Model
from actors.rehearsal.prompt import Json, Prompt, read_prompt, thinking_type
from actors.rehearsal.tokens import count_prompt

SAMPLING = ("temperature", "top_p", "top_k")


def _a_format(place: str, value: Any) -> None:
    has_fields(place, value, {"type": one_of("json_schema"), "schema": an_object}, {})


def _an_output_config(place: str, value: Any) -> None:
    has_fields(place, value, {}, {"effort": or_null(one_of(*EFFORTS)), "format": or_null(_a_format)})


def _a_metadata(place: str, value: Any) -> None:
    has_fields(place, value, {}, {"user_id": or_null(a_text)})


def _a_diagnostics(place: str, value: Any) -> None:
    has_fields(place, value, {}, {"previous_message_id": or_null(a_text)})


_REQUIRED: Mapping[str, Kind] = {"model": a_text, "messages": each(a_message)}
_COUNTED: Mapping[str, Kind] = {
    "cache_control": or_null(a_cache_control),
    "output_config": _an_output_config,
    "speed": or_null(one_of("standard", "fast")),
    "system": a_system,
    "thinking": a_thinking,
    "tool_choice": a_tool_choice,
    "tools": each(a_tool),
}
_CREATED: Mapping[str, Kind] = {
    **_COUNTED,
    "container": or_null(anything),
    "diagnostics": or_null(_a_diagnostics),
    "inference_geo": or_null(a_text),
    "metadata": _a_metadata,
    "service_tier": one_of("auto", "standard_only"),
    "stop_sequences": each(a_text),
    "stream": a_boolean,
    "user_profile_id": a_text,
}


def check_message(body: Any, models: Mapping[str, Model]) -> tuple[Prompt, Model]:
    """The prompt of `POST /v1/messages`; RefusedError in the API's words if it is none."""
    _check_sampling(body)
    has_fields("", body, {**_REQUIRED, "max_tokens": an_integer}, _CREATED)
    prompt, model = _check_prompt(body, models)
    _check_length(prompt, model)
    for index, stop in enumerate(body.get("stop_sequences", ())):
        if not stop.strip():
            refuse(f"stop_sequences.{index}", "each stop sequence must contain non-whitespace")
    return prompt, model


def check_count(body: Any, models: Mapping[str, Model]) -> Prompt:
    """The prompt of `POST /v1/messages/count_tokens`; RefusedError as above."""
    _check_sampling(body)
    has_fields("", body, _REQUIRED, _COUNTED)
    return _check_prompt(body, models)[0]


def _check_sampling(body: Any) -> None:
    an_object("", body)
    for name in SAMPLING:
        if name in body:
            raise RefusedError(f"`{name}` is not supported for this model.")


def _check_prompt(body: Json, models: Mapping[str, Model]) -> tuple[Prompt, Model]:
    model = models.get(body["model"])
    if model is None or model.lifecycle == "retired":
        raise RefusedError(f"model: {body['model']}", status=404, kind="not_found_error")
    check_thinking(body, model)
    check_tools(body, model)
    prompt = read_prompt(body)
    check_turns(prompt, model)
    check_thoughts(prompt, model)
    check_breakpoints(prompt)
    return prompt, model


def _check_length(prompt: Prompt, model: Model) -> None:
    wanted = prompt.body["max_tokens"]
    if wanted < 0:
        refuse("max_tokens", "Input should be greater than or equal to 0")
    if wanted > model.max_tokens:
        refuse(
            "max_tokens",
            f"{wanted} > {model.max_tokens}, which is the maximum allowed number of output tokens for {model.id}",
        )
    if wanted == 0:
        _check_warming(prompt.body)
    tokens = count_prompt(prompt)
    if tokens > model.max_input_tokens:
        raise RefusedError(f"prompt is too long: {tokens} tokens > {model.max_input_tokens} maximum")


def _check_warming(body: Json) -> None:
    """A request that is only to fill the cache says nothing, so it asks for nothing that is about saying."""
    choice: Any = body.get("tool_choice") or {}
    asked = {
        "stream": body.get("stream"),
        "thinking.type.enabled": thinking_type(body, thinks_unasked=False) == "enabled",
        "output_config.format": (body.get("output_config") or {}).get("format"),
        "tool_choice": choice.get("type") in ("any", "tool"),
    }
    for name, value in asked.items():
        if value:
            refuse("max_tokens", f"must be greater than 0 when `{name}` is used")
