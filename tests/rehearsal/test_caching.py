"""What the prompt cache reads, writes and forgets, by the usage of real answers."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from anthropic import AsyncAnthropic

from actors.rehearsal import Fault, Rehearsal
from tests.rehearsal.company import OTHER, PARTS, TOOL, Body, Clock, ask, assistant, client_of, spoken, text, user

SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
LARGE = "x" * 4000
"""1000 tokens; a block of it has 1004."""
BLOCK_TOKENS = 1004
OFF = {"type": "disabled"}


def system(said: str = LARGE, mark: Any = SHORT) -> list[Body]:
    return [text(said, cache_control=mark)]


def blocks(count: int, *, marked: tuple[int, ...] = (), first: str = LARGE) -> Body:
    """A message of many small blocks after a large one; those with these numbers are marked."""
    texts = [first, *(f"{n:04}" for n in range(1, count))]
    return user(*(text(said, **({"cache_control": SHORT} if n in marked else {})) for n, said in enumerate(texts)))


def one(message: Body, **more: Any) -> Body:
    return ask(**more) | {"messages": [message]}


async def used(client: AsyncAnthropic, body: Body) -> tuple[int, int, int]:
    """What was read, written and neither."""
    usage = (await client.messages.create(**body)).usage
    assert usage.cache_read_input_tokens is not None
    assert usage.cache_creation_input_tokens is not None
    return usage.cache_read_input_tokens, usage.cache_creation_input_tokens, usage.input_tokens


async def test_what_was_written_is_read_and_the_rest_is_charged(client: AsyncAnthropic) -> None:
    body = ask("four", system=system())

    assert await used(client, body) == (0, BLOCK_TOKENS, 5)
    assert await used(client, body) == (BLOCK_TOKENS, 0, 5)
    assert await used(client, ask("eight ch", system=system())) == (BLOCK_TOKENS, 0, 6)


async def test_nothing_is_cached_unasked(client: AsyncAnthropic) -> None:
    body = ask(LARGE)

    assert await used(client, body) == (0, 0, BLOCK_TOKENS)
    assert await used(client, body) == (0, 0, BLOCK_TOKENS)


async def test_the_automatic_mark_advances_with_the_conversation(client: AsyncAnthropic) -> None:
    messages = [user(LARGE)]
    read = []
    for turn in range(4):
        body = ask(cache_control=SHORT) | {"messages": messages}
        message = await client.messages.create(**body)
        total = sum(await used(client, body))
        read.append((message.usage.cache_read_input_tokens, message.usage.input_tokens, total))
        messages = [*messages, spoken(message), user(f"and {turn}")]

    assert [each[1] for each in read] == [0, 0, 0, 0]
    assert [each[0] for each in read] == [0, *(each[2] for each in read[:-1])]


@pytest.mark.parametrize(
    ("said", "model", "written"),
    [
        ("x" * 4 * 508, "claude-sonnet-5-5", 512),
        ("x" * 4 * 507, "claude-sonnet-5-5", 0),
        ("x" * 4 * 1020, "claude-opus-4-8", 1024),
        ("x" * 4 * 1019, "claude-opus-4-8", 0),
        ("x" * 4 * 2044, "claude-opus-4-7", 2048),
        ("x" * 4 * 2043, "claude-opus-4-7", 0),
        ("x" * 4 * 4092, "claude-haiku-4-5", 4096),
        ("x" * 4 * 4091, "claude-haiku-4-5", 0),
    ],
)
async def test_a_short_prefix_is_not_cached(client: AsyncAnthropic, said: str, model: str, written: int) -> None:
    assert (await used(client, ask(system=system(said), model=model)))[1] == written


@pytest.mark.parametrize(("added", "found"), [(1, True), (19, True), (20, False), (40, False)])
async def test_a_mark_looks_back_over_twenty_blocks(client: AsyncAnthropic, added: int, found: bool) -> None:
    await used(client, one(blocks(1, marked=(0,))))

    read, _, _ = await used(client, one(blocks(1 + added, marked=(added,))))

    assert read == (BLOCK_TOKENS if found else 0)


async def test_a_mark_in_between_bridges_what_is_too_far(client: AsyncAnthropic) -> None:
    await used(client, one(blocks(1, marked=(0,))))

    read, written, rest = await used(client, one(blocks(31, marked=(15, 30))))

    assert (read, written, rest) == (BLOCK_TOKENS, 30 * 5, 0)


async def test_only_marked_prefixes_are_there_to_be_found(client: AsyncAnthropic) -> None:
    await used(client, one(blocks(10, marked=(9,))))

    assert (await used(client, one(blocks(9, marked=(8,)))))[0] == 0
    assert (await used(client, one(blocks(12, marked=(11,)))))[0] == BLOCK_TOKENS + 9 * 5


async def test_four_marks_are_four_entries(client: AsyncAnthropic) -> None:
    tool = TOOL | {"description": LARGE, "cache_control": SHORT}
    body = ask(tools=[tool], system=system()) | {"messages": [blocks(5, marked=(0, 4))]}
    _, written, _ = await used(client, body)

    reads = [
        (await used(client, body))[0],
        (await used(client, body | {"messages": [blocks(3, marked=(2,))]}))[0],
        (await used(client, body | {"messages": [user("x")]}))[0],
        (await used(client, body | {"system": system("y" + LARGE), "messages": [user("x")]}))[0],
    ]

    assert reads[0] == written
    assert reads[1] == written - 4 * 5
    assert reads[2] == reads[1] - BLOCK_TOKENS
    assert reads[3] == reads[2] - BLOCK_TOKENS > 0


@pytest.mark.parametrize(("mark", "seconds"), [(SHORT, 300), (LONG, 3600)])
async def test_an_entry_lives_for_its_time(client: AsyncAnthropic, clock: Clock, mark: Body, seconds: float) -> None:
    body = ask("four", system=system(mark=mark))
    await used(client, body)

    clock.now += seconds - 1
    assert (await used(client, body))[0] == BLOCK_TOKENS
    clock.now += seconds - 1  # it was refreshed by the read
    assert (await used(client, body))[0] == BLOCK_TOKENS
    clock.now += seconds
    assert await used(client, body) == (0, BLOCK_TOKENS, 5)


async def test_what_is_written_is_told_apart_by_its_time(client: AsyncAnthropic) -> None:
    body = ask(system=system(mark=LONG)) | {"messages": [blocks(2, marked=(1,))]}

    first = (await client.messages.create(**body)).usage.cache_creation
    second = (await client.messages.create(**body | {"messages": [blocks(3, marked=(2,))]})).usage.cache_creation

    assert first is not None
    assert second is not None
    assert (first.ephemeral_1h_input_tokens, first.ephemeral_5m_input_tokens) == (BLOCK_TOKENS, BLOCK_TOKENS + 5)
    assert (second.ephemeral_1h_input_tokens, second.ephemeral_5m_input_tokens) == (0, 5)


async def test_a_long_entry_outlives_the_short_one_after_it(client: AsyncAnthropic, clock: Clock) -> None:
    body = ask(system=system(mark=LONG)) | {"messages": [blocks(2, marked=(1,))]}
    await used(client, body)

    clock.now += 600

    assert await used(client, body) == (BLOCK_TOKENS, BLOCK_TOKENS + 5, 0)


BASE = ask("four", tools=[TOOL, OTHER], system=system(), cache_control=SHORT)


@pytest.mark.parametrize(
    ("change", "system_is_read"),
    [
        ({"model": "claude-opus-5-5"}, False),
        ({"output_config": {"effort": "low"}}, False),
        ({"speed": "fast"}, False),
        ({"tools": [OTHER, TOOL]}, False),
        ({"tools": [TOOL]}, False),
        ({"system": system("y" + LARGE)}, False),
        ({"thinking": OFF}, True),
        ({"tool_choice": {"type": "none"}}, True),
        ({"messages": [user("five!")]}, True),
        ({"metadata": {"user_id": "bob"}}, None),
        ({"max_tokens": 5}, None),
        ({"thinking": {"type": "adaptive", "display": "summarized"}}, None),
        ({"tool_choice": {"type": "auto"}}, None),
        ({"messages": [user(text("four"))]}, None),
        ({"system": [text(LARGE)]}, None),
    ],
)
async def test_what_is_read_after_a_change(client: AsyncAnthropic, change: Body, system_is_read: bool | None) -> None:
    """None: the change is no part of the prompt, so that all of it is read."""
    total = sum(await used(client, BASE))
    before = total - 5

    read, _, _ = await used(client, BASE | change)

    assert read == {True: before, False: 0, None: total}[system_is_read]


async def test_the_keys_of_a_calls_input_keep_their_order(client: AsyncAnthropic) -> None:
    def conversation(arguments: Body) -> Body:
        called = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": arguments}
        answered = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
        return ask(tools=[TOOL], cache_control=SHORT) | {"messages": [user(LARGE), assistant(called), user(answered)]}

    await used(client, conversation({"a": 1, "b": 2}))

    assert (await used(client, conversation({"a": 1, "b": 2})))[0] > 0
    assert (await used(client, conversation({"b": 2, "a": 1})))[0] == 0


async def test_each_key_has_a_cache_of_its_own(
    rehearsal: Rehearsal, client: AsyncAnthropic, connect: Callable[..., AsyncAnthropic]
) -> None:
    body = ask(system=system())
    await used(client, body)

    assert (await used(connect(rehearsal, "another"), body))[0] == 0
    assert (await used(client, body))[0] == BLOCK_TOKENS


async def test_an_entry_is_there_when_its_answer_has_begun_and_not_before(
    rehearsal: Rehearsal, client: AsyncAnthropic
) -> None:
    body = ask(system=system())
    rehearsal.add(Fault(kind="slow_first_byte", delay_seconds=60))
    slow = asyncio.create_task(client.messages.create(**body, stream=True))
    while not rehearsal.faults[0].used:
        await asyncio.sleep(0)

    assert (await used(client, body | {"messages": [user("meanwhile")]}))[0] == 0
    slow.cancel()
    rehearsal.add(Fault(kind="stall"))
    streamed = await client.messages.create(**body | {"system": system("y" + LARGE)}, stream=True)
    assert (await used(client, body | {"system": system("y" + LARGE)}))[0] == BLOCK_TOKENS + 1
    await streamed.close()


@pytest.mark.parametrize("kind", ["overloaded", "server_error", "no_answer", "refuse_connection"])
async def test_what_was_never_answered_is_not_cached(rehearsal: Rehearsal, client: AsyncAnthropic, kind: Any) -> None:
    rehearsal.add(Fault(kind=kind))
    with pytest.raises(Exception, match=r"."):
        await client.with_options(timeout=0.2).messages.create(**ask(system=system()))

    assert (await used(client, ask(system=system())))[0] == 0


async def test_warming_writes_and_says_nothing(client: AsyncAnthropic) -> None:
    message = await client.messages.create(**ask("x", system=system(), max_tokens=0))

    assert (message.content, message.stop_reason, message.usage.output_tokens) == ([], "max_tokens", 0)
    assert (await used(client, ask("four", system=system())))[0] == BLOCK_TOKENS


@pytest.mark.parametrize(
    ("change", "reason", "missed"),
    [
        ({}, None, None),
        ({"model": "claude-opus-5-5"}, "model_changed", True),
        ({"tools": [OTHER]}, "tools_changed", True),
        ({"system": system("y" + LARGE)}, "system_changed", True),
        ({"messages": [user("otherwise")]}, "messages_changed", True),
        ({"thinking": OFF}, "unavailable", None),
        ({"diagnostics": {"previous_message_id": "msg_1"}}, "previous_message_not_found", None),
        ({"diagnostics": {"previous_message_id": None}, "system": "x"}, None, None),
        ({"diagnostics": None, "system": "x"}, None, None),
    ],
)
async def test_a_miss_is_explained(
    client: AsyncAnthropic, change: Body, reason: str | None, missed: bool | None
) -> None:
    first = await client.messages.create(**BASE)
    longer = [*BASE["messages"], spoken(first), user("more")]
    asked = {"messages": longer, "diagnostics": {"previous_message_id": first.id}}

    second = await client.messages.create(**BASE | asked | change)

    told = second.diagnostics
    found = told.cache_miss_reason if told else None
    assert (found.type if found else None) == reason
    if missed:
        assert found is not None
        total = sum(filter(None, (first.usage.cache_creation_input_tokens, first.usage.cache_read_input_tokens)))
        assert found.cache_missed_input_tokens == total - (second.usage.cache_read_input_tokens or 0)  # type: ignore[union-attr]


async def test_a_restart_forgets_what_was_asked(connect: Callable[..., AsyncAnthropic]) -> None:
    async with Rehearsal(PARTS) as rehearsal:
        first = await connect(rehearsal).messages.create(**BASE)
    async with Rehearsal(PARTS) as rehearsal, client_of(rehearsal) as client:
        second = await client.messages.create(**BASE, diagnostics={"previous_message_id": first.id})

    assert second.diagnostics is not None
    assert second.diagnostics.cache_miss_reason is not None
    assert second.diagnostics.cache_miss_reason.type == "previous_message_not_found"
