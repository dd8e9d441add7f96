"""Everything that can go wrong on demand, as the SDK sees it."""

import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import msgspec
import pytest
from anthropic import APIConnectionError, APIStatusError, APITimeoutError, AsyncAnthropic, BadRequestError

from actors.rehearsal import Fault, Latency, Rehearsal
from tests.rehearsal.company import MODEL, PARTS, TOOL, Body, Clock, ask, stream

SECONDS = 0.2
"""For which a client waits that is to give up."""


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(kind="rate_limit"), (anthropic.RateLimitError, 429, "rate_limit_error")),
        (Fault(kind="overloaded"), ("OverloadedError", 529, "overloaded_error")),
        (Fault(kind="server_error"), (anthropic.InternalServerError, 500, "api_error")),
        (Fault(kind="server_error", status=503), ("ServiceUnavailableError", 503, "api_error")),
        (Fault(kind="server_error", status=504), ("GatewayTimeoutError", 504, "timeout_error")),
        (Fault(kind="server_error", status=408), (anthropic.APIStatusError, 408, "timeout_error")),
        (Fault(kind="server_error", status=409), (anthropic.ConflictError, 409, "conflict_error")),
        (Fault(kind="spend_limit"), ("EnforcedSpendLimitReachedError", 429, "rate_limit_error")),
        (Fault(kind="spend_limit", status=400), (anthropic.BadRequestError, 400, "invalid_request_error")),
        (Fault(kind="billing"), ("PaymentRequiredError", 402, "billing_error")),
        (Fault(kind="auth"), (anthropic.AuthenticationError, 401, "authentication_error")),
        (Fault(kind="permission"), (anthropic.PermissionDeniedError, 403, "permission_error")),
        (Fault(kind="not_found"), (anthropic.NotFoundError, 404, "not_found_error")),
        (Fault(kind="too_large"), ("ContentTooLargeError", 413, "request_too_large")),
        (Fault(kind="bad_request"), (anthropic.BadRequestError, 400, "invalid_request_error")),
        (Fault(kind="rate_limit", code="ramp_limit_exceeded"), ("RampLimitExceededError", 429, "rate_limit_error")),
    ],
    ids=lambda value: f"{value.kind}-{value.status}" if isinstance(value, Fault) else None,
)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_error_is_the_one_that_the_sdk_knows(
    rehearsal: Rehearsal, client: AsyncAnthropic, fault: Fault, expected: tuple[Any, int, str], is_streamed: bool
) -> None:
    error, status, kind = expected
    rehearsal.add(fault)

    with pytest.raises(APIStatusError) as refused:
        await client.messages.create(**ask(), stream=is_streamed)

    if isinstance(error, str):
        assert type(refused.value).__name__ == error
    else:
        assert isinstance(refused.value, error)
    assert (refused.value.status_code, refused.value.type) == (status, kind)
    assert refused.value.request_id == rehearsal.calls[-1].request_id
    assert rehearsal.calls[-1].fault == fault.kind
    await client.messages.create(**ask())


@pytest.mark.parametrize(
    ("fault", "headers"),
    [
        (Fault(kind="rate_limit", retry_after_seconds=7), {"retry-after": "7"}),
        (Fault(kind="rate_limit", retry_after_ms=250), {"retry-after-ms": "250"}),
        (Fault(kind="rate_limit"), {"anthropic-ratelimit-requests-remaining": "0"}),
        (Fault(kind="overloaded", retry_after_seconds=1.5), {"retry-after": "1.5"}),
        (Fault(kind="spend_limit"), {"x-should-retry": "false"}),
    ],
)
async def test_it_is_said_when_to_come_again(
    rehearsal: Rehearsal, client: AsyncAnthropic, fault: Fault, headers: dict[str, str]
) -> None:
    rehearsal.add(fault)

    with pytest.raises(APIStatusError) as refused:
        await client.messages.create(**ask())

    assert headers.items() <= dict(refused.value.response.headers).items()


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(kind="refuse_connection"), APIConnectionError),
        (Fault(kind="no_answer"), APITimeoutError),
        (Fault(kind="slow_first_byte", delay_seconds=60), APITimeoutError),
        (Fault(kind="latency", times=1, latency=Latency(seconds=60)), APITimeoutError),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else None,
)
async def test_a_connection_fails_before_an_answer(
    rehearsal: Rehearsal, client: AsyncAnthropic, fault: Fault, error: type[Exception], is_streamed: bool
) -> None:
    rehearsal.add(fault)

    with pytest.raises(error):
        await client.with_options(timeout=SECONDS).messages.create(**ask(), stream=is_streamed)

    await client.messages.create(**ask())


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(kind="cut"), httpx2.RemoteProtocolError),
        (Fault(kind="cut", after_events=0), httpx2.RemoteProtocolError),
        (Fault(kind="cut", after_bytes=100), httpx2.RemoteProtocolError),
        (Fault(kind="stall"), httpx2.ReadTimeout),
        (Fault(kind="malformed_json"), json.JSONDecodeError),
    ],
)
async def test_a_stream_breaks(
    rehearsal: Rehearsal, client: AsyncAnthropic, fault: Fault, error: type[Exception]
) -> None:
    rehearsal.add(fault)

    with pytest.raises(error):
        await stream(client.with_options(timeout=SECONDS), ask("think", tools=[TOOL]))

    assert (rehearsal.calls[-1].status, rehearsal.calls[-1].fault) == (200, fault.kind)
    await stream(client, ask())


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(kind="cut"), APIConnectionError),
        (Fault(kind="cut", after_bytes=0), APIConnectionError),
        (Fault(kind="stall"), APITimeoutError),
        (Fault(kind="malformed_json"), json.JSONDecodeError),
    ],
)
async def test_a_whole_answer_breaks(
    rehearsal: Rehearsal, client: AsyncAnthropic, fault: Fault, error: type[Exception]
) -> None:
    rehearsal.add(fault)

    with pytest.raises((error, httpx2.HTTPError)):
        await client.with_options(timeout=SECONDS).messages.create(**ask())

    await client.messages.create(**ask())


@pytest.mark.parametrize("kind", ["overloaded_error", "api_error", "rate_limit_error"])
async def test_an_error_in_the_middle_of_a_stream_has_its_type_and_status_200(
    rehearsal: Rehearsal, client: AsyncAnthropic, kind: str
) -> None:
    rehearsal.add(Fault(kind="sse_error", error=kind))

    with pytest.raises(APIStatusError) as refused:
        await stream(client, ask())

    assert (refused.value.status_code, refused.value.type) == (200, kind)


async def test_a_stream_that_ends_early_in_order_has_no_end(rehearsal: Rehearsal, client: AsyncAnthropic) -> None:
    rehearsal.add(Fault(kind="no_message_stop"))

    kinds = [event.type async for event in await client.messages.create(**ask(), stream=True)]

    assert kinds[-1] == "message_delta"


@pytest.mark.parametrize("after", [0, 1, 4, 1000])
async def test_a_stream_is_cut_after_so_many_events(rehearsal: Rehearsal, client: AsyncAnthropic, after: int) -> None:
    whole: list[str] = []
    await collect(client, whole)
    rehearsal.add(Fault(kind="cut", after_events=after))
    seen: list[str] = []

    with pytest.raises(httpx2.RemoteProtocolError):
        await collect(client, seen)

    assert seen == whole[: min(after, len(whole) - 1)]


async def collect(client: AsyncAnthropic, seen: list[str]) -> None:
    """Note the events of a stream, as far as it goes; pings are not shown by the SDK."""
    async for event in await client.messages.create(**ask(), stream=True):
        seen.append(event.type)  # noqa: PERF401 -- what was seen until it broke


async def outcome(client: AsyncAnthropic, **more: Any) -> int:
    """The status of one call."""
    try:
        await client.messages.create(**ask(**more))
    except APIStatusError as error:
        return error.status_code
    return 200


async def outcomes(client: AsyncAnthropic, count: int, **more: Any) -> list[int]:
    return [await outcome(client, **more) for _ in range(count)]


async def test_a_fault_happens_so_many_times(rehearsal: Rehearsal, client: AsyncAnthropic) -> None:
    rehearsal.add(Fault(kind="overloaded", times=2), Fault(kind="rate_limit"))

    assert await outcomes(client, 4) == [529, 529, 429, 200]
    assert [(each.used, each.is_over) for each in rehearsal.faults] == [(2, True), (1, True)]


async def test_a_fault_lets_some_pass_first(rehearsal: Rehearsal, client: AsyncAnthropic) -> None:
    rehearsal.add(Fault(kind="overloaded", skips=2))

    assert await outcomes(client, 4) == [200, 200, 529, 200]


async def test_an_outage_begins_and_ends_by_the_clock(
    rehearsal: Rehearsal, client: AsyncAnthropic, clock: Clock
) -> None:
    rehearsal.add(Fault(kind="overloaded", seconds=30, begins_seconds=10))
    seen = []
    for seconds in (0, 10, 29, 1):
        clock.now += seconds
        seen.append(await outcomes(client, 2))

    assert seen == [[200, 200], [529, 529], [529, 529], [200, 200]]


@pytest.mark.parametrize(
    "match",
    [{"role": "coder"}, {"story": "s-1"}, {"session": "s-1.1"}, {"state": "CODING"}, {"model": MODEL}],
)
async def test_a_fault_is_for_those_whom_it_names(
    rehearsal: Rehearsal, client: AsyncAnthropic, match: dict[str, Any]
) -> None:
    rehearsal.add(Fault(kind="overloaded", **match))
    mark = "callboard: role=coder story=s-1 session=s-1.1 state=CODING"

    assert await outcome(client, system="callboard: role=pm", model="claude-opus-5-5") == 200
    assert await outcome(client, system=mark) == 529


async def test_a_fault_is_for_its_endpoint(rehearsal: Rehearsal, client: AsyncAnthropic) -> None:
    rehearsal.add(Fault(kind="overloaded", endpoint="count_tokens"), Fault(kind="overloaded", endpoint="models"))

    assert await outcome(client) == 200
    with pytest.raises(APIStatusError):
        await client.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "x"}])
    with pytest.raises(APIStatusError):
        await client.models.list()


async def test_a_mark_in_the_metadata_and_in_what_is_said_counts(rehearsal: Rehearsal, client: AsyncAnthropic) -> None:
    metadata = {"user_id": "callboard: role=pm story=s-1"}
    await client.messages.create(**ask("callboard: role=coder", metadata=metadata))

    record = rehearsal.calls[-1]
    assert (record.role, record.story) == ("coder", "s-1")


async def test_latency_is_drawn_from_its_seed() -> None:
    for latency in (
        Latency(seconds=0.5),
        Latency(distribution="uniform", seconds=0.1, seconds_max=0.9, seed=3),
        Latency(distribution="lognormal", seconds=0.5, seconds_max=2.0, seed=3),
    ):
        drawn = [latency.draw(n) for n in range(200)]

        assert drawn == [latency.draw(n) for n in range(200)]
        assert all(0.0 < each <= 2.0 for each in drawn)
        assert len(set(drawn)) == (1 if latency.distribution == "constant" else pytest.approx(200, abs=20))
        assert sorted(drawn)[100] == pytest.approx(0.5, abs=0.15)


async def test_faults_come_and_go_by_http(rehearsal: Rehearsal, client: AsyncAnthropic) -> None:
    path = "/rehearsal/faults"
    added: Any = await client.post(path, body=[{"kind": "overloaded", "times": 2}], cast_to=object)
    status = await outcome(client)
    shown: Any = await client.get(path, cast_to=object)
    cleared: Any = await client.delete(path, cast_to=object)

    assert added == [{"fault": {"kind": "overloaded", "times": 2}, "used": 0, "is_over": False}]
    assert status == 529
    assert shown == [{"fault": {"kind": "overloaded", "times": 2}, "used": 1, "is_over": False}]
    assert cleared == []
    assert await outcome(client) == 200


async def test_faults_can_be_cleared_in_an_outage(rehearsal: Rehearsal, client: AsyncAnthropic) -> None:
    rehearsal.add(Fault(kind="refuse_connection", seconds=3600))
    for _ in range(2):
        with pytest.raises(APIConnectionError):
            await client.messages.create(**ask())

    await client.delete("/rehearsal/faults", cast_to=object)

    assert await outcome(client) == 200


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "overloaded"},
        [{"kind": "earthquake"}],
        [{"kind": "overloaded", "time": 2}],
        [{"kind": "overloaded", "times": 0}],
        [{"kind": "server_error", "status": 501}],
        [{"kind": "latency", "latency": {"distribution": "normal"}}],
        "x",
    ],
)
async def test_a_wrong_fault_is_refused(rehearsal: Rehearsal, client: AsyncAnthropic, body: Any) -> None:
    with pytest.raises(BadRequestError):
        await client.post("/rehearsal/faults", body=body, cast_to=object)

    assert rehearsal.faults == []


async def test_a_schedule_is_there_from_the_beginning(connect: Callable[..., AsyncAnthropic]) -> None:
    schedule = msgspec.json.decode(b'[{"kind": "overloaded"}, {"kind": "rate_limit"}]', type=list[Fault])

    async with Rehearsal(PARTS, schedule) as rehearsal:
        assert await outcomes(connect(rehearsal), 3) == [529, 429, 200]


async def test_a_retry_is_seen_to_be_the_same_request(rehearsal: Rehearsal, client: AsyncAnthropic) -> None:
    body: Body = ask()
    rehearsal.add(Fault(kind="overloaded"))
    await outcomes(client, 2)
    await client.messages.create(**body | {"max_tokens": 5})

    one, two, three = rehearsal.calls
    assert one.sha256 == two.sha256 != three.sha256
    assert len({each.request_id for each in rehearsal.calls}) == 3
