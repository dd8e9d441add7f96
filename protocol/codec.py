"""Bytes to envelopes and back: one encoder, one decoder, and a reason for everything that cannot be read."""

import msgspec

from protocol.errors import MalformedMessageError, UnsupportedSchemaError
from protocol.messages import SCHEMA, Envelope


class _Versioned(msgspec.Struct, frozen=True, kw_only=True):
    """As much of a message as is needed to tell its schema."""

    schema: int = SCHEMA


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Envelope)
_schema_decoder = msgspec.json.Decoder(_Versioned)

encode = _encoder.encode
"""Any struct of the protocol as JSON; the same value always gives the same bytes."""


def decode_envelope(data: bytes) -> Envelope:
    """Read an envelope, or raise MalformedMessageError or UnsupportedSchemaError with the reason and the bytes."""
    try:
        envelope = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(error, data, SCHEMA) from error
    if envelope.schema != SCHEMA:
        raise UnsupportedSchemaError(envelope.schema, SCHEMA, data)
    return envelope


def unreadable(error: Exception, data: bytes, supported: int) -> MalformedMessageError | UnsupportedSchemaError:
    """The reason why `data` was not read: another schema explains an unknown field or type better than the field."""
    try:
        found = _schema_decoder.decode(data).schema
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = supported
    if found != supported:
        return UnsupportedSchemaError(found, supported, data)
    kind = "not what the schema asks for" if isinstance(error, msgspec.ValidationError) else "not JSON"
    return MalformedMessageError(f"{kind}: {error}", data)
