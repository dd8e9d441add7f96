"""What is no request, or a strange one: it is answered or cut off, and the next one is served as ever."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from anthropic import APIStatusError, AsyncAnthropic

from actors.rehearsal import Rehearsal
from actors.rehearsal.http import BODY_BYTES_MAX
from tests.rehearsal.company import ask, post

HEAD = "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\nanthropic-version: 1\r\n"
BODY = json.dumps(ask()).encode()
SECONDS = 10.0


@asynccontextmanager
async def connected(rehearsal: Rehearsal) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    place = urlsplit(rehearsal.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def say(rehearsal: Rehearsal, data: bytes, *, ends: bool = True) -> bytes:
    """Send some bytes, and hear all that comes back."""
    async with connected(rehearsal) as (reader, writer), asyncio.timeout(SECONDS):
        writer.write(data)
        if ends:
            writer.write_eof()
        return await reader.read()


def request(*headers: str, body: bytes = BODY) -> bytes:
    return (
        HEAD + "".join(f"{header}\r\n" for header in headers) + f"content-length: {len(body)}\r\n\r\n"
    ).encode() + body


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def still_answers(client: AsyncAnthropic) -> None:
    assert (await client.messages.create(**ask())).stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("data", "answered"),
    [
        (b"", None),
        (b"\r\n\r\n", 400),
        (b"hello\r\n\r\n", 400),
        (b"\x00\xff" * 100 + b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 20_000, 431),
        ((HEAD + "content-length: -1\r\n\r\n").encode(), 400),
        ((HEAD + "content-length: 99999999999999999999\r\n\r\n").encode(), 400),
        ((HEAD + "content-length: 5\r\ncontent-length: 6\r\n\r\n").encode(), 400),
        ((HEAD + "transfer-encoding: chunked\r\n\r\nzzz\r\n").encode(), 400),
        ((HEAD + "content-length: 500\r\n\r\nearly").encode(), 400),
    ],
)
async def test_what_is_no_request_is_refused_or_dropped(
    rehearsal: Rehearsal, client: AsyncAnthropic, data: bytes, answered: int | None
) -> None:
    answer = await say(rehearsal, data)

    assert (status(answer) if answer else None) in {answered, 413 if b"9999" in data else answered}
    await still_answers(client)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nul",
        b"\xff\xfe",
        b'{"model": "\xff"}',
        b'{"model": "\\ud800"}',
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b'{"messages": [' + b"[" * 50_000 + b"]" * 50_000 + b"]}",
        b"1e999",
        b'{"max_tokens": ' + b"9" * 5000 + b"}",
        b'{"model": {"a": 1}, "messages": 5, "max_tokens": []}',
        json.dumps(ask(tool_choice=[])).encode(),
        json.dumps(ask(thinking=5)).encode(),
        json.dumps(ask(system=5)).encode(),
        json.dumps(ask(tools=[5])).encode(),
        json.dumps(ask(tools=[{"name": 5, "input_schema": {"type": {}}}])).encode(),
        json.dumps(ask(tools=[{"name": "x", "input_schema": {"type": "object", "items": 5}}])).encode(),
        json.dumps(ask(cache_control=5, diagnostics=5, metadata=5, output_config=5)).encode(),
        json.dumps(ask() | {"messages": [{"role": [], "content": 5}]}).encode(),
        json.dumps(ask() | {"messages": [{"role": "user", "content": 5}]}).encode(),
        json.dumps(ask() | {"messages": [{"role": "user", "content": [{"type": {}}]}]}).encode(),
        json.dumps(ask() | {"messages": [5]}).encode(),
    ],
)
async def test_a_body_that_is_no_message_is_a_bad_request(
    rehearsal: Rehearsal, client: AsyncAnthropic, body: bytes
) -> None:
    answer = await say(rehearsal, request(body=body))

    assert status(answer) == 400
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"
    await still_answers(client)


async def test_random_bytes_harm_nobody(rehearsal: Rehearsal, client: AsyncAnthropic) -> None:
    chance = random.Random(4)
    whole = request()
    for _ in range(100):
        broken = bytearray(whole)
        for _ in range(chance.randint(1, 20)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        await say(rehearsal, bytes(broken[: chance.randint(1, len(broken))]))

    await still_answers(client)
    assert all(record.status in (200, 400, 401, 404, 405, 413, 415, 431, 501, 505) for record in rehearsal.calls)


async def test_a_request_that_is_too_large_is_told_so(rehearsal: Rehearsal, client: AsyncAnthropic) -> None:
    with pytest.raises(APIStatusError) as refused:
        await post(client, ask("x" * BODY_BYTES_MAX))

    assert (refused.value.status_code, refused.value.type) == (413, "request_too_large")
    await still_answers(client)


async def test_a_request_that_grows_too_large_is_told_so(rehearsal: Rehearsal) -> None:
    size = BODY_BYTES_MAX // 4
    chunk = f"{size:x}\r\n".encode() + b" " * size + b"\r\n"

    answer = await say(rehearsal, f"{HEAD}transfer-encoding: chunked\r\n\r\n".encode() + chunk * 5)

    assert status(answer) == 413


async def test_a_body_in_chunks_is_a_body(rehearsal: Rehearsal) -> None:
    chunks = b"".join(f"{1:x}\r\n".encode() + BODY[n : n + 1] + b"\r\n" for n in range(len(BODY))) + b"0\r\n\r\n"

    answer = await say(rehearsal, f"{HEAD}transfer-encoding: chunked\r\n\r\n".encode() + chunks)

    assert status(answer) == 200


async def test_who_expects_to_be_asked_is_asked(rehearsal: Rehearsal) -> None:
    async with connected(rehearsal) as (reader, writer), asyncio.timeout(SECONDS):
        head, _, body = request("expect: 100-continue").partition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        first = await reader.readuntil(b"\r\n\r\n")
        writer.write(body)
        second = await reader.readuntil(b"\r\n\r\n")

    assert (status(first), status(second)) == (100, 200)


async def test_a_connection_is_kept_and_requests_may_come_at_once(rehearsal: Rehearsal) -> None:
    async with connected(rehearsal) as (reader, writer), asyncio.timeout(SECONDS):
        writer.write(request() * 3)
        writer.write_eof()
        answers = await reader.read()

    assert answers.count(b"HTTP/1.1 200") == 3


@pytest.mark.parametrize(
    ("data", "answered"),
    [
        (request().replace(b"anthropic-version: 1\r\n", b""), 400),
        (request("content-encoding: gzip"), 415),
        (request("connection: close"), 200),
        (request().replace(b"HTTP/1.1", b"HTTP/1.0"), 200),
        (b"HEAD /v1/models HTTP/1.1\r\nhost: x\r\n\r\n", 405),
        (b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n", 404),
        (b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n", 404),
        (b"GET /v1/models?limit=0 HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\nanthropic-version: 1\r\n\r\n", 400),
        (b"GET /v1/models?limit=%ff HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\nanthropic-version: 1\r\n\r\n", 400),
        (b"GET /v1/models/%ff%00 HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\nanthropic-version: 1\r\n\r\n", 404),
    ],
)
async def test_odd_requests_have_an_answer(rehearsal: Rehearsal, data: bytes, answered: int) -> None:
    answer = await say(rehearsal, data)

    assert status(answer) == answered


async def test_many_ask_at_once(client: AsyncAnthropic) -> None:
    answers: list[Any] = await asyncio.gather(*(client.messages.create(**ask(f"number {n}")) for n in range(50)))

    assert [answer.content[0].text for answer in answers] == [f"You said: number {n}" for n in range(50)]


async def test_who_leaves_in_the_middle_is_forgotten(rehearsal: Rehearsal, client: AsyncAnthropic) -> None:
    for size in (10, len(HEAD) + 5, len(request())):
        async with connected(rehearsal) as (_, writer):
            writer.write(request()[:size])
            writer.transport.abort()

    await still_answers(client)
