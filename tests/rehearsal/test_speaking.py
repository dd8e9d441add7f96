"""What the SDK hears: whole answers and streams, with thinking, calls and every way to stop."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from anthropic import AsyncAnthropic

from actors.rehearsal import Rehearsal
from actors.rehearsal.models import MODELS
from tests.rehearsal.company import MODEL, OTHER, PARTS, TOOL, Body, ask, result, spoken, stream, user

SHOWN = {"type": "adaptive", "display": "summarized"}
REQUESTS = {
    "text": ask("hello"),
    "thinking": ask("think", tools=[TOOL], thinking=SHOWN),
    "thinking that is not shown": ask("think", tools=[TOOL]),
    "calls": ask("both", tools=[TOOL, OTHER]),
    "refusal": ask("refuse"),
    "pause": ask("pause"),
    "cut text": ask("long", max_tokens=8),
    "stop sequence": ask("long", stop_sequences=["nine", "four"]),
    "system": ask("hello", system=[{"type": "text", "text": "Be brief."}]),
}


@pytest.mark.parametrize("body", REQUESTS.values(), ids=REQUESTS.keys())
async def test_a_stream_says_the_same_as_a_whole_answer(client: AsyncAnthropic, body: Body) -> None:
    whole = await client.messages.create(**body)
    streamed = await stream(client, body)

    ours, theirs = whole.to_dict(), streamed.to_dict()
    for block in theirs["content"]:
        block.pop("parsed_output", None)
    assert theirs == ours


async def test_events_come_in_the_order_of_the_api(client: AsyncAnthropic) -> None:
    events: list[Any] = [
        event async for event in await client.messages.create(**ask("think", tools=[TOOL], thinking=SHOWN), stream=True)
    ]

    kinds = [event.delta.type if event.type == "content_block_delta" else event.type for event in events]
    assert [kind for at, kind in enumerate(kinds) if kind != kinds[at - 1]] == [
        "message_start",
        *["content_block_start", "thinking_delta", "signature_delta", "content_block_stop"],
        *["content_block_start", "text_delta", "content_block_stop"],
        *["content_block_start", "input_json_delta", "content_block_stop"],
        "message_delta",
        "message_stop",
    ]
    assert kinds.count("input_json_delta") > 2
    assert kinds.count("thinking_delta") > 2


async def test_usage_is_on_the_input_first_and_whole_in_the_end(client: AsyncAnthropic) -> None:
    events: list[Any] = [
        event async for event in await client.messages.create(**ask("think", tools=[TOOL]), stream=True)
    ]
    whole = await client.messages.create(**ask("think", tools=[TOOL]))

    start, end = events[0].message.usage, events[-2].usage
    assert (start.input_tokens, start.output_tokens) == (whole.usage.input_tokens, 1)
    assert (end.input_tokens, end.output_tokens) == (whole.usage.input_tokens, whole.usage.output_tokens)
    assert 0 < end.output_tokens_details.thinking_tokens < end.output_tokens


async def test_thinking_is_shown_when_it_is_asked_for_and_counts_anyway(client: AsyncAnthropic) -> None:
    shown = await client.messages.create(**ask("think", tools=[TOOL], thinking=SHOWN))
    hidden = await client.messages.create(**ask("think", tools=[TOOL]))
    off = await client.messages.create(**ask("think", tools=[TOOL], thinking={"type": "disabled"}))

    assert [getattr(each.content[0], "thinking", None) for each in (shown, hidden, off)] == [
        "I hear 5 letters.",
        "",
        None,
    ]
    assert hidden.usage.output_tokens == shown.usage.output_tokens > off.usage.output_tokens


async def test_a_tool_loop_goes_to_its_end(client: AsyncAnthropic) -> None:
    messages = [user("think")]
    first = await client.messages.create(**ask(tools=[TOOL]) | {"messages": messages})
    assert first.stop_reason == "tool_use"
    messages += [spoken(first), user(result(first.content[-1].id))]  # type: ignore[union-attr]  # it is a call

    second = await client.messages.create(**ask(tools=[TOOL]) | {"messages": messages})

    assert (second.stop_reason, second.content[-1].text) == ("end_turn", "Done.")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "reason", "sequence"),
    [
        (ask("long", max_tokens=8), "max_tokens", None),
        (ask("long", stop_sequences=["four"]), "stop_sequence", "four"),
        (ask("pause"), "pause_turn", None),
        (ask("refuse"), "refusal", None),
        (ask("both", tools=[TOOL, OTHER]), "tool_use", None),
        (ask("hello"), "end_turn", None),
    ],
)
async def test_every_way_to_stop(client: AsyncAnthropic, body: Body, reason: str, sequence: str | None) -> None:
    message = await stream(client, body)

    assert (message.stop_reason, message.stop_sequence) == (reason, sequence)


async def test_a_refusal_has_its_category(client: AsyncAnthropic) -> None:
    message = await client.messages.create(**ask("refuse"))

    assert message.stop_details is not None
    assert message.stop_details.category == "cyber"


async def test_a_call_is_cut_off_in_the_middle_of_its_input(client: AsyncAnthropic) -> None:
    body = ask("write", tools=[TOOL], max_tokens=40)

    raw = ""
    async for event in await client.messages.create(**body, stream=True):
        raw += getattr(getattr(event, "delta", None), "partial_json", "")
    whole = await client.messages.create(**body)

    assert raw.startswith('{"command":"ls","text":"xxxx')
    assert not raw.endswith("}")
    assert (whole.stop_reason, whole.usage.output_tokens) == ("max_tokens", 40)
    assert whole.content[-1].input == {"command": "ls"}  # type: ignore[union-attr]  # it is a call


async def test_an_answer_ends_with_the_window_of_the_model(connect: Callable[..., AsyncAnthropic]) -> None:
    small = msgspec.structs.replace(MODELS[MODEL], id="small", max_input_tokens=20)

    async with Rehearsal(PARTS, models={"small": small}) as rehearsal:
        message = await stream(connect(rehearsal), ask("long", model="small"))

    assert message.stop_reason == "model_context_window_exceeded"
    assert message.usage.input_tokens + message.usage.output_tokens == 20


async def test_a_paused_turn_goes_on(client: AsyncAnthropic) -> None:
    messages = [user("pause")]
    messages.append(spoken(await client.messages.create(**ask() | {"messages": messages})))

    message = await client.messages.create(**ask() | {"messages": messages})

    assert (message.stop_reason, message.content[0].text) == ("end_turn", "Turn 1.")  # type: ignore[union-attr]


async def test_one_call_at_a_time_when_that_is_asked_for(client: AsyncAnthropic) -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}

    message = await client.messages.create(**ask("both", tools=[TOOL, OTHER], tool_choice=choice))

    assert [block.type for block in message.content] == ["tool_use"]


async def test_counting_says_what_usage_says(client: AsyncAnthropic) -> None:
    body = ask("hello" * 100, system="Be brief.", tools=[TOOL])
    counted = {name: value for name, value in body.items() if name != "max_tokens"}

    tokens = (await client.messages.count_tokens(**counted)).input_tokens

    assert tokens == (await client.messages.create(**body)).usage.input_tokens > 125


async def test_models_say_what_they_can(client: AsyncAnthropic) -> None:
    page = await client.models.list(limit=3)
    listed = [model async for model in client.models.list(limit=3)]
    model = await client.models.retrieve(MODEL)
    retired = await client.models.retrieve("claude-mythos-preview")
    deprecated = await client.models.list(lifecycle=["deprecated"])

    assert (len(page.data), page.has_more, len({each.id for each in listed})) == (3, True, len(listed))
    assert (model.lifecycle, model.max_input_tokens, model.max_tokens) == ("active", 1_000_000, 128_000)
    assert model.capabilities is not None
    assert model.capabilities.thinking.types.adaptive.supported
    assert retired.lifecycle == "retired"
    assert retired.retires_at is not None
    assert [each.id for each in deprecated.data] == ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929"]
    assert retired.id not in [each.id for each in listed]


async def test_headers_are_there(client: AsyncAnthropic) -> None:
    response = await client.messages.with_raw_response.create(**ask())

    names = set(response.headers)
    assert response.headers["request-id"].startswith("req_")
    for kind in ("requests", "tokens", "input-tokens", "output-tokens"):
        assert {f"anthropic-ratelimit-{kind}-{what}" for what in ("limit", "remaining", "reset")} <= names


async def test_the_same_request_gives_the_same_answer_from_any_server(connect: Callable[..., AsyncAnthropic]) -> None:
    bodies: set[bytes] = set()
    for _ in range(2):
        async with Rehearsal(PARTS) as rehearsal:
            client = connect(rehearsal)
            for _ in range(2):
                response = await client.messages.with_raw_response.create(**ask("think", tools=[TOOL]), stream=True)
                bodies.add(await response.http_response.aread())

    assert len(bodies) == 1


async def test_the_journal_says_who_asked_what(rehearsal: Rehearsal, client: AsyncAnthropic) -> None:
    mark = "callboard: role=coder story=s-1 session=s-1.1 state=CODING"
    message = await client.messages.create(**ask(f"hello\n{mark}"))
    listed = await client.get("/rehearsal/calls", cast_to=list[dict[str, Any]])

    record = rehearsal.calls[0]
    assert (record.role, record.story, record.session, record.state) == ("coder", "s-1", "s-1.1", "CODING")
    assert (record.status, record.model, record.message_id) == (200, MODEL, message.id)
    assert listed[0]["sha256"] == record.sha256
