"""HTTP/1.1 on one connection: requests in, answers out, and every way to break one off.

What is no HTTP is answered as far as it can be and the connection closed; a peer that has gone ends it quietly.
"""

import asyncio
import socket
import struct
from collections.abc import Mapping
from http import HTTPStatus

import h11
import msgspec

READ_BYTES = 64 * 1024
HEADER_BYTES_MAX = 64 * 1024
BODY_BYTES_MAX = 32 * 1024 * 1024
IDLE_SECONDS = 300.0
"""How long a connection may say nothing between requests."""
REQUEST_SECONDS = 60.0
"""How long a peer may take to send one request."""
DRAIN_BYTES_MAX = 2 * BODY_BYTES_MAX
DRAIN_SECONDS = 5.0
"""How much of a body that is too large is read away, so that the peer hears the answer before the end."""
_ABORT = struct.pack("ii", 1, 0)


class Gone(Exception):  # noqa: N818 -- no error: the peer has left, or was cut off
    """There is nobody to answer any more."""


class NotHttpError(Exception):
    """The peer sent what is no request, or one that is too large; `status` says which."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(reason)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A whole request; header names are in lower case, and of one that is repeated the last counts."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """The target without what follows a question mark."""
        return self.target.partition("?")[0]


class Connection:
    """One connection of a peer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
        self._is_head = False

    async def request(self) -> Request | None:
        """The next request; None when there will be none. Raises NotHttpError, Gone."""
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                head = await self._event()
            if isinstance(head, h11.Request):
                async with asyncio.timeout(REQUEST_SECONDS):
                    return await self._whole(head)
        except h11.RemoteProtocolError as error:
            raise NotHttpError(error.error_status_hint, str(error)) from error
        except TimeoutError as error:
            raise Gone from error
        return None

    async def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Answer as a whole. Raises Gone."""
        self.begin(status, {**headers, "content-length": str(len(body))})
        await self.send(b"" if self._is_head else body)
        await self.end()

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin to answer; without a length it is sent in chunks."""
        close = {"connection": "close"} if self._h11.their_state is h11.ERROR else {}
        reason = HTTPStatus(status).phrase if status in {each.value for each in HTTPStatus} else ""
        self._write(
            h11.Response(status_code=status, reason=reason.encode(), headers=list({**headers, **close}.items()))
        )

    async def send(self, data: bytes) -> None:
        """Send some more. Raises Gone."""
        self._write(h11.Data(data=data))
        await self._flush()

    async def end(self) -> None:
        """End the answer in order. Raises Gone."""
        self._write(h11.EndOfMessage())
        await self._flush()

    def again(self) -> bool:
        """Whether another request may come; makes ready for it."""
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            return True
        return False

    def reset(self) -> None:
        """Break off at once, so that the peer sees a reset."""
        plain = self._writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        self._writer.transport.abort()

    async def until_gone(self) -> None:
        """Say nothing more until the peer has had enough."""
        while await self._reader.read(READ_BYTES):
            pass

    async def drain(self) -> None:
        """Read away what the peer still sends, so that it does not lose the answer to a reset."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        seen = 0
        async with asyncio.timeout(DRAIN_SECONDS):
            while seen < DRAIN_BYTES_MAX and (data := await self._reader.read(READ_BYTES)):
                seen += len(data)

    def close(self) -> None:
        """Close it; what was sent still arrives."""
        self._writer.close()

    async def _whole(self, head: h11.Request) -> Request:
        if not head.http_version.startswith(b"1."):
            raise NotHttpError(505, "HTTP Version Not Supported")
        self._is_head = head.method == b"HEAD"
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        if int(headers.get("content-length", 0)) > BODY_BYTES_MAX:
            raise NotHttpError(413, "Request exceeds the maximum size")
        if self._h11.they_are_waiting_for_100_continue:
            self._write(h11.InformationalResponse(status_code=100, headers=[]))
        parts, size = [], 0
        while isinstance(event := await self._event(), h11.Data):
            size += len(event.data)
            if size > BODY_BYTES_MAX:
                raise NotHttpError(413, "Request exceeds the maximum size")
            parts.append(bytes(event.data))
        return Request(
            method=head.method.decode("latin-1"),
            target=head.target.decode("latin-1"),
            headers=headers,
            body=b"".join(parts),
        )

    async def _event(self) -> object:
        while True:
            event: object = self._h11.next_event()
            if event is not h11.NEED_DATA:
                return event
            try:
                data = await self._reader.read(READ_BYTES)
            except OSError as error:
                raise Gone from error
            self._h11.receive_data(data)

    def _write(self, event: h11.Event) -> None:
        try:
            data = self._h11.send(event)
        except h11.LocalProtocolError as error:
            raise Gone from error
        if data and not self._writer.is_closing():
            self._writer.write(data)

    async def _flush(self) -> None:
        try:
            await self._writer.drain()
        except OSError as error:
            raise Gone from error
        if self._writer.is_closing():
            raise Gone
