"""One call of the model by the real SDK before a rehearsal: every row of the policy, and what of a turn is kept."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from actors.claude.client import CallLimits, Claude
from actors.claude.providers import Provider
from actors.claude.troubled import TroubleError
from actors.rehearsal.faults import Fault
from actors.rehearsal.models import MODELS
from actors.rehearsal.parts import Answer, Call, Cue
from actors.rehearsal.server import Rehearsal
from actors.thinking.heard import Heard
from actors.thinking.troubles import Trouble

MODEL = "claude-sonnet-5-5"
TOOL = {
    "name": "edit",
    "description": "To edit.",
    "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
}
LIMITS = CallLimits(connect_seconds=2.0, stall_seconds=0.3)
SECONDS = 10.0


def request(max_tokens: int = 2000) -> dict[str, Any]:
    return {
        "model": MODEL,
        "max_tokens": max_tokens,
        "messages": [{"role": "user", "content": "Write."}],
        "tools": [TOOL],
    }


@asynccontextmanager
async def claude(url: str, limits: CallLimits = LIMITS) -> AsyncIterator[Any]:
    client = Claude(limits)

    async def call(seconds: float = SECONDS, key: str = "key", **changed: Any) -> Heard | Trouble:
        try:
            return await client.call(Provider(url=url, key=key), request() | changed, seconds)
        except TroubleError as error:
            return error.trouble

    yield call
    await client.close()


async def heard_of(answer: Answer, *faults: Fault, **how: Any) -> Heard | Trouble:
    async with Rehearsal([Cue(says=answer)], faults) as rehearsal, claude(rehearsal.url) as call:
        return await call(**how)  # type: ignore[no-any-return]


WRITES = Answer(thinking="How?", text="So.", calls=(Call("edit", {"text": "word " * 20}),))
POLICY: tuple[tuple[Fault, str, int, bool], ...] = (
    (Fault(kind="rate_limit"), "rate_limited", 429, False),
    (Fault(kind="rate_limit", code="ramp_limit_exceeded"), "rate_limited", 429, False),
    (Fault(kind="overloaded"), "overloaded", 529, False),
    (Fault(kind="server_error"), "server_error", 500, False),
    (Fault(kind="server_error", status=503), "server_error", 503, False),
    (Fault(kind="server_error", status=504), "server_error", 504, False),
    (Fault(kind="server_error", status=408), "server_error", 408, False),
    (Fault(kind="server_error", status=409), "server_error", 409, False),
    (Fault(kind="refuse_connection"), "unreachable", 0, True),
    (Fault(kind="no_answer"), "timed_out", 0, True),
    (Fault(kind="slow_first_byte", delay_seconds=60), "timed_out", 0, True),
    (Fault(kind="cut"), "cut", 0, True),
    (Fault(kind="stall"), "stalled", 0, True),
    (Fault(kind="no_message_stop"), "cut", 0, True),
    (Fault(kind="malformed_json"), "malformed", 0, True),
    (Fault(kind="sse_error", error="overloaded_error"), "overloaded", 0, True),
    (Fault(kind="sse_error", error="api_error"), "server_error", 0, True),
    (Fault(kind="sse_error", error="rate_limit_error"), "rate_limited", 0, True),
    (Fault(kind="sse_error", error="timeout_error"), "server_error", 0, True),
    (Fault(kind="sse_error", error="invalid_request_error"), "bad_request", 0, True),
    (Fault(kind="auth"), "key", 401, False),
    (Fault(kind="permission"), "permission", 403, False),
    (Fault(kind="billing"), "billing", 402, False),
    (Fault(kind="spend_limit", status=429), "spend_limit", 429, False),
    (Fault(kind="spend_limit", status=400), "spend_limit", 400, False),
    (Fault(kind="not_found"), "model_gone", 404, False),
    (Fault(kind="too_large"), "context_full", 413, False),
    (Fault(kind="bad_request"), "bad_request", 400, False),
)


@pytest.mark.parametrize(
    ("fault", "kind", "status", "reached"), POLICY, ids=lambda value: value.kind if isinstance(value, Fault) else None
)
async def test_what_goes_wrong_is_told_by_what_to_do(fault: Fault, kind: str, status: int, reached: bool) -> None:
    trouble = await heard_of(WRITES, fault)

    assert isinstance(trouble, Trouble)
    assert (trouble.kind, trouble.status, trouble.reached) == (kind, status, reached)
    assert (trouble.usage is not None) == (
        fault.kind in {"cut", "stall", "no_message_stop", "malformed_json", "sse_error"}
    )


async def test_an_answer_that_may_not_be_so_long_is_a_trouble_of_its_own() -> None:
    trouble = await heard_of(WRITES, max_tokens=10_000_000)

    assert isinstance(trouble, Trouble)
    assert (trouble.kind, trouble.status) == ("output_limit", 400)


@pytest.mark.parametrize("reason", ["pause_turn", "refusal", "stop_sequence"])
async def test_how_a_turn_ended_is_told(reason: Any) -> None:
    heard = await heard_of(Answer(text="Well …", stop_reason=reason))

    assert isinstance(heard, Heard)
    assert heard.stop_reason == reason


LONG = Answer(calls=(Call("edit", {"text": "word " * 3000}),))


async def test_a_call_of_a_tool_that_the_window_has_cut_is_a_turn_that_does_not_fit_and_is_not_asked_for_again() -> (
    None
):
    small = msgspec.structs.replace(MODELS[MODEL], max_input_tokens=300)
    async with Rehearsal([Cue(says=LONG)], models={MODEL: small}) as rehearsal, claude(rehearsal.url) as call:
        heard = await call(max_tokens=6000)

    assert isinstance(heard, Heard)
    assert heard.stop_reason == "model_context_window_exceeded"


async def test_what_was_heard_before_the_time_was_up_is_counted() -> None:
    stall = Fault(kind="stall", after_events=40)
    limits = CallLimits(connect_seconds=2.0, stall_seconds=60.0)
    async with Rehearsal([Cue(says=LONG)], [stall]) as rehearsal, claude(rehearsal.url, limits) as call:
        trouble = await call(seconds=3.0, max_tokens=6000)

    assert isinstance(trouble, Trouble)
    assert (trouble.kind, trouble.reached) == ("timed_out", True)
    assert trouble.usage is not None
    assert trouble.usage.output_tokens > 10


@pytest.mark.parametrize("key", ["one\ntwo", "one\0two"])
async def test_what_cannot_even_be_sent_is_never_tried_again_and_costs_nothing(key: str) -> None:
    trouble = await heard_of(WRITES, key=key)

    assert isinstance(trouble, Trouble)
    assert (trouble.kind, trouble.reached) == ("bad_request", False)


def event(kind: str, **facts: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | facts)}\n\n".encode()


def a_call_with(said: str) -> bytes:
    """What a server streams that calls a tool with such an input."""
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 1},
    }
    block = {"type": "tool_use", "id": "toolu_1", "name": "edit", "input": {}}
    return b"".join(
        [
            event("message_start", message=message),
            event("content_block_start", index=0, content_block=block),
            event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": said}),
            event("content_block_stop", index=0),
            event(
                "message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage={"output_tokens": 9}
            ),
            event("message_stop"),
        ]
    )


@asynccontextmanager
async def a_server_that_says(body: bytes) -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths: Mapping[bytes, bytes] = dict(
            line.lower().split(b": ", 1) for line in head.split(b"\r\n") if b": " in line
        )
        await reader.readexactly(int(lengths[b"content-length"]))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("said", ['{"text": NaN}', '{"text": 1e999}', '{"text": -Infinity}', '{"text": "cut'])
async def test_an_input_that_could_not_be_sent_back_is_no_turn(said: str) -> None:
    async with a_server_that_says(a_call_with(said)) as url, claude(url) as call:
        trouble = await call()

    assert isinstance(trouble, Trouble)
    assert trouble.kind == "malformed"


async def test_numbers_stay_what_they_are() -> None:
    async with a_server_that_says(a_call_with('{"text": [1, 2.5, 1e3]}')) as url, claude(url) as call:
        heard = await call()

    assert isinstance(heard, Heard)
    assert json.loads(heard.content)[0]["input"] == {"text": [1, 2.5, 1000.0]}
