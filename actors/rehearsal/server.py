"""The rehearsal server: a local stand-in for the Messages API, that plays parts and has faults on demand."""

import asyncio
import secrets
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import structlog

from actors.redaction import redact
from actors.rehearsal.errors import RefusedError
from actors.rehearsal.faults import IN_BODY, Fault, Faults, Standing, refusal
from actors.rehearsal.http import Connection, Gone, NotHttpError, Request
from actors.rehearsal.journal import CallRecord
from actors.rehearsal.models import MODELS, Model
from actors.rehearsal.parts import Part
from actors.rehearsal.playbook import read_parts
from actors.rehearsal.replies import Reply, common_headers, data_reply, error_body, error_reply, fault_headers
from actors.rehearsal.stage import Heard, Stage

ADMIN = "/rehearsal/"
AFTER_EVENTS = 3
CALLS_MAX = 100_000
"""How many calls are remembered; the oldest are forgotten."""
TOKENS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
UNSAID = frozenset({"usage", "sha256"})
_STATUS_KINDS = {413: "request_too_large"}

log = structlog.get_logger()


class Rehearsal:
    """A server that runs while its context is entered, on a port of its own unless one is given."""

    def __init__(  # noqa: PLR0913 -- all by name, and each with a default
        self,
        parts: Path | Sequence[Part],
        faults: Sequence[Fault] = (),
        *,
        clock: Callable[[], float] = time.time,
        keys: Collection[str] | None = None,
        models: Mapping[str, Model] = MODELS,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._clock = clock
        self._host, self._port = host, port
        self._stage = Stage(read_parts(parts) if isinstance(parts, Path) else tuple(parts), models, keys)
        self._faults = Faults()
        self.add(*faults)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._token = secrets.token_hex(6)
        self._count = 0
        self.calls: list[CallRecord] = []
        """Every request, in the order in which the answers began."""

    @property
    def url(self) -> str:
        """What a client takes as its base."""
        assert self._server is not None, "the rehearsal has not begun"
        port = self._server.sockets[0].getsockname()[1]
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{port}"

    @property
    def faults(self) -> list[Standing]:
        """What goes wrong, and how often it has."""
        return self._faults.standing(self._clock())

    def add(self, *faults: Fault) -> None:
        """Have something go wrong from now on."""
        self._faults.add(faults, self._clock())

    def clear(self) -> None:
        """Have nothing go wrong any more."""
        self._faults.clear()

    async def __aenter__(self) -> Self:
        """Begin; OSError if the port is taken."""
        self._server = await asyncio.start_server(self._accept, self._host, self._port, limit=2**16)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End at once, with whatever is under way."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    # Connections.

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = Connection(reader, writer)
        try:
            await self._serve(connection)
        except (Gone, OSError, TimeoutError):
            pass  # The peer has left, and with it whoever could be told.
        except asyncio.CancelledError:
            pass  # The rehearsal is over; the stream's own machinery would print this.
        finally:
            self._tasks.discard(task)
            connection.close()

    async def _serve(self, connection: Connection) -> None:
        while True:
            try:
                request = await connection.request()
            except NotHttpError as error:
                await self._refuse(connection, error)
                return
            if request is None:
                return
            await self._respond(connection, request)
            if not connection.again():
                return

    async def _refuse(self, connection: Connection, error: NotHttpError) -> None:
        """Answer what is no request, or too large to be read."""
        kind = _STATUS_KINDS.get(error.status, "invalid_request_error")
        request_id = self._next_id()
        refused = RefusedError(error.reason, status=error.status, kind=kind)
        reply = error_reply(refused, request_id, common_headers(request_id, self._clock()))
        self._record(CallRecord(endpoint="", status=error.status, request_id=request_id, sha256="", error=error.reason))
        await connection.answer(reply.status, reply.headers, reply.body)
        await connection.drain()

    async def _respond(self, connection: Connection, request: Request) -> None:
        if request.path.startswith(ADMIN):
            reply = self._administer(request)
            await connection.answer(reply.status, reply.headers, reply.body)
            return
        heard = self._stage.hear(request, self._next_id())
        await asyncio.sleep(self._faults.delay_seconds(heard.facts, self._clock()))
        fault = self._faults.take(heard.facts, self._clock())
        if fault is None or fault.kind in IN_BODY:
            reply = self._stage.answer(heard, self._clock())
            await self._send(connection, heard, reply, fault if reply.status == 200 else None)
        else:
            await self._fail(connection, heard, fault)

    # Faults.

    async def _fail(self, connection: Connection, heard: Heard, fault: Fault) -> None:
        """What happens instead of an answer, or before it."""
        match fault.kind:
            case "refuse_connection":
                self._note(heard, 0, fault)
                connection.reset()
                raise Gone
            case "no_answer":
                self._note(heard, 0, fault)
                await connection.until_gone()
                raise Gone
            case "slow_first_byte":
                reply = self._stage.answer(heard, self._clock())
                await asyncio.sleep(fault.delay_seconds)
                await self._send(connection, heard, reply, fault)
            case _:
                reply = _refused_reply(fault, heard.request_id, self._clock())
                await self._send(connection, heard, reply, fault)

    async def _send(self, connection: Connection, heard: Heard, reply: Reply, fault: Fault | None) -> None:
        """Send an answer, as far as it comes."""
        self._note(heard, reply.status, fault, reply)
        if reply.begins is not None:
            reply.begins(self._clock())
        if fault is None or fault.kind not in IN_BODY:
            await _send_whole(connection, reply)
        elif reply.events:
            await _send_stream_broken(connection, reply, fault, heard.request_id)
        else:
            await _send_body_broken(connection, reply, fault)

    # What is said about it.

    def _note(self, heard: Heard, status: int, fault: Fault | None, reply: Reply | None = None) -> None:
        facts = heard.facts
        self._record(
            CallRecord(
                endpoint=facts.endpoint,
                status=status,
                request_id=heard.request_id,
                sha256=heard.sha256,
                role=facts.role,
                story=facts.story,
                session=facts.session,
                state=facts.state,
                model=facts.model,
                is_streamed=facts.is_streamed,
                fault=fault.kind if fault else "",
                **(reply.record if reply else {}),
            )
        )
        if reply is not None and reply.said:
            sys.stderr.write(redact(f"\n{reply.said}\n\n"))

    def _record(self, record: CallRecord) -> None:
        self.calls.append(record)
        del self.calls[:-CALLS_MAX]
        said = msgspec.to_builtins(record) | {name: (record.usage or {}).get(name) for name in TOKENS}
        said = {name: value for name, value in said.items() if name not in UNSAID and value not in ("", None, False)}
        level = "warning" if record.error and not record.fault else "info"
        getattr(log, level)("call.answered", **said)

    def _next_id(self) -> str:
        self._count += 1
        return f"req_01{self._token}{self._count:08d}"

    def _administer(self, request: Request) -> Reply:
        """What is said about the rehearsal itself, for which nobody needs a key."""
        headers = common_headers("", self._clock())
        try:
            match request.method, request.path.removeprefix(ADMIN):
                case "GET", "calls":
                    return data_reply(self.calls, headers)
                case "GET", "faults":
                    return data_reply(self.faults, headers)
                case "POST", "faults":
                    self.add(*msgspec.json.decode(request.body, type=list[Fault]))
                    return data_reply(self.faults, headers)
                case "DELETE", "faults":
                    self.clear()
                    return data_reply(self.faults, headers)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return error_reply(RefusedError(str(error)), "", headers)
        return error_reply(RefusedError("Not Found", status=404, kind="not_found_error"), "", headers)


def _refused_reply(fault: Fault, request_id: str, now: float) -> Reply:
    found = refusal(fault)
    assert found is not None
    status, kind, code, message = found
    headers = {**common_headers(request_id, now), **fault_headers(fault, now)}
    return error_reply(RefusedError(message, status=status, kind=kind, code=code), request_id, headers)


async def _send_whole(connection: Connection, reply: Reply) -> None:
    if not reply.events:
        await connection.answer(reply.status, reply.headers, reply.body)
        return
    connection.begin(reply.status, reply.headers)
    for event in reply.events:
        await connection.send(event)
    await connection.end()


async def _send_stream_broken(connection: Connection, reply: Reply, fault: Fault, request_id: str) -> None:
    """Send a stream up to where it breaks, and break it."""
    sent, rest = _split(reply.events, fault)
    connection.begin(reply.status, reply.headers)
    for event in sent:
        await connection.send(event)
    match fault.kind:
        case "stall":
            await connection.until_gone()
            raise Gone
        case "cut":
            raise Gone
        case "sse_error":
            body = error_body(fault.error, fault.error.removesuffix("_error").capitalize(), fault.code)
            await connection.send(
                b"event: error\ndata: " + msgspec.json.encode(body | {"request_id": request_id}) + b"\n\n"
            )
        case "malformed_json":
            broken = rest or reply.events[-1]
            await connection.send(broken[: len(broken) // 2] + b"\n\n")
    await connection.end()


def _split(events: tuple[bytes, ...], fault: Fault) -> tuple[list[bytes], bytes]:
    """What is sent before a stream breaks, and the event at which it does."""
    if fault.kind == "no_message_stop":
        return list(events[:-1]), events[-1]
    if fault.after_bytes is not None:
        whole = b"".join(events)
        return [whole[: fault.after_bytes]], whole[fault.after_bytes :].partition(b"\n\n")[0]
    count = min(AFTER_EVENTS if fault.after_events is None else fault.after_events, len(events) - 1)
    return list(events[:count]), events[count]


async def _send_body_broken(connection: Connection, reply: Reply, fault: Fault) -> None:
    """The same for an answer that is no stream."""
    half = reply.body[: len(reply.body) // 2 if fault.after_bytes is None else fault.after_bytes]
    if fault.kind == "malformed_json":
        await connection.answer(reply.status, reply.headers, half)
        return
    connection.begin(reply.status, {**reply.headers, "content-length": str(len(reply.body))})
    await connection.send(half)
    if fault.kind == "stall":
        await connection.until_gone()
    raise Gone
