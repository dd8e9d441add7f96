"""A checkpoint: the book at some entry, on the board, so that a fresh process need not read everything.

It is a cache and never the truth. It names the entry that it was taken at by its bytes, so one of another stream, of a
history that was lost, or of noise is not believed, and the ledger is read from its beginning.
"""

import hashlib

import msgspec
import structlog

from bus.board import Board
from bus.broker import Broker, Message
from bus.errors import BusError
from bus.ledger.book import Book, Totals
from bus.retrying import surely
from protocol.codec import encode

CHECKPOINT_KEY = "ledger.book"
VERSION = 1
"""Of the rules of the fold: a checkpoint of other rules is not believed."""
ENTRIES_BETWEEN = 500

log = structlog.get_logger()


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What stands on the board."""

    version: int
    digest: str
    totals: Totals


_checkpoint = msgspec.json.Decoder(Checkpoint)


class Checkpoints:
    """The checkpoint of one ledger, of which there is the latest that anybody wrote."""

    def __init__(self, broker: Broker, board: Board, stream: str, subject: str) -> None:
        self._broker = broker
        self._board = board
        self._stream = stream
        self._subject = subject

    async def load(self) -> Book:
        """The book as far as a checkpoint that can be believed says it; else an empty one."""
        posted = await self._board.get(CHECKPOINT_KEY)
        if posted is None or posted.value is None:
            return Book()
        try:
            found = _checkpoint.decode(posted.value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            log.warning("ledger.checkpoint_unreadable", revision=posted.revision)
            return Book()
        sequence = found.totals.sequence
        message = await surely(lambda: self._broker.get(self._stream, sequence))
        if found.version != VERSION or not self._is_taken_at(message, found.digest):
            log.warning("ledger.checkpoint_foreign", version=found.version, sequence=sequence)
            return Book()
        return Book.restored(found.totals)

    async def save(self, book: Book, last: Message) -> None:
        """Put the book up, as it is after `last`; what does not succeed at once is left."""
        assert last.sequence == book.sequence
        value = encode(Checkpoint(version=VERSION, digest=_digest(last.data), totals=book.totals()))
        if len(value) > self._broker.message_bytes_max // 2:
            return
        try:
            await self._board.put_once(CHECKPOINT_KEY, value)
        except BusError as error:
            log.warning("ledger.checkpoint_not_saved", reason=str(error))

    def _is_taken_at(self, message: Message | None, digest: str) -> bool:
        return message is not None and message.subject == self._subject and _digest(message.data) == digest


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
