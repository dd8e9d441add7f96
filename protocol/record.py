"""The journal's record: what one step of a session was, and the session as it is after it.

What belongs to the agents (event, effects, session) is kept as raw JSON here, so that a journal of any machine can be
shown and verified without the code of its actors.
"""

import msgspec

from protocol.codec import unreadable
from protocol.errors import UnsupportedSchemaError
from protocol.messages import Instant, Natural

RECORD_SCHEMA = 1


class Record(msgspec.Struct, frozen=True, kw_only=True, rename={"state_from": "from", "state_to": "to"}):
    """Step `n` of a session. A resume needs only the last one."""

    n: Natural
    machine: str
    session: str
    incarnation: str
    at: Instant
    event: msgspec.Raw
    state_from: str
    state_to: str
    after: msgspec.Raw
    effects: tuple[msgspec.Raw, ...] = ()
    schema: int = RECORD_SCHEMA

    @property
    def append_id(self) -> str:
        """The id of the append: it names the process, so that a stranger's record is never taken for a repetition."""
        return f"{self.session}/{self.n}/{self.incarnation}"


_decoder = msgspec.json.Decoder(Record)


def decode_record(data: bytes) -> Record:
    """Read a record, or raise MalformedMessageError or UnsupportedSchemaError with the reason and the bytes."""
    try:
        record = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(error, data, RECORD_SCHEMA) from error
    if record.schema != RECORD_SCHEMA:
        raise UnsupportedSchemaError(record.schema, RECORD_SCHEMA, data)
    return record
