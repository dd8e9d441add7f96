"""nats-py's client with gaps closed that lie inside its connect and reconnect loops, out of reach of its callbacks.

Towards a server that is frozen, that offers less than the URL asks for, or whose credentials cannot be read, the
original waits for ever, goes on in the clear, or gives up without a word. tests/bus/test_connection.py holds each case.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client, Srv

SURPRISE_SECONDS = 1.0
"""The pause after an attempt to reconnect that failed as nats-py does not foresee."""

_CREDENTIALS_MARKS = (b"BEGIN NATS USER JWT", b"BEGIN USER NKEY SEED")


class CarefulClient(Client):
    """A client that insists on the TLS it was told to use and that nothing keeps from trying again."""

    def __init__(self, *, tls_only: bool) -> None:
        super().__init__()
        self._tls_only = tls_only
        self.attempted = ""
        """Host and port of the server that was tried last."""
        self._connecting = asyncio.Lock()

    def abort(self) -> None:
        """Drop the socket with all that waits to be sent: a close waits until the server has read it."""
        writer: Any = getattr(self._transport, "_io_writer", None)
        with suppress(AttributeError):  # there is no socket, or it is closed already and has no loop any more
            writer.transport.abort()

    async def _attempt_reconnect(self) -> None:
        self.abort()
        while True:
            try:
                return await super()._attempt_reconnect()
            except Exception as error:  # Whatever it is: without a next attempt there is never one.
                await self._error_cb(error)
                await asyncio.sleep(SURPRISE_SECONDS)

    async def _connect_to_server(self, s: Srv) -> None:
        self.attempted = f"{s.uri.hostname}:{s.uri.port}"
        async with self._connecting:  # of two at once, one would write over the other's socket
            self._refuse_if_late()
            self.abort()  # the original leaves the socket of an attempt that failed to the garbage collector
            await super()._connect_to_server(s)
            try:
                self._refuse_if_late()
            except asyncio.CancelledError:
                self.abort()
                raise

    def _refuse_if_late(self) -> None:
        """End a reconnection whose cancellation got lost, as it can on Python 3.11; another runs now, or none is to."""
        task = self._reconnection_task
        if task is not None and (self.is_closed or task is not asyncio.current_task()):
            raise asyncio.CancelledError

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self._tls_only and not info.get("tls_required"):
            # What comes next are our credentials, and they would go out in the clear.
            raise nats.errors.Error("the server offers no TLS")
        await super()._process_info(info, initial_connection)

    def _read_creds_user_nkey(self, creds: Any) -> bytearray:
        _check_credentials(creds)
        return super()._read_creds_user_nkey(creds)

    def _read_creds_user_jwt(self, creds: Any) -> Any:
        _check_credentials(creds)
        return super()._read_creds_user_jwt(creds)


def _check_credentials(path: str) -> None:
    """The original reads a file without a token on and on, and the whole loop stands still meanwhile."""
    content = Path(path).read_bytes()
    if any(mark not in content for mark in _CREDENTIALS_MARKS):
        raise nats.errors.Error(f"{path} holds no NATS credentials")
