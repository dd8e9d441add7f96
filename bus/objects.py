"""The object store: large things by the hash of their bytes, so that putting twice stores once.

The layout is that of NATS object stores: any client can read what is here.
"""

import base64
import hashlib
import re
import secrets
from collections.abc import Iterator
from typing import Annotated

import msgspec

from bus.broker import ROLLUP, Broker
from bus.errors import ObjectCorruptError, ObjectMissingError
from bus.fence import Fence
from bus.retrying import surely
from bus.topology import OBJECTS
from protocol.subjects import Subjects

CHUNK_BYTES = 128 * 1024
HEADERS_BYTES = 512
"""Room for a chunk's headers within the broker's limit."""
_KEY = re.compile(r"sha256-[0-9a-f]{64}")


class _Description(msgspec.Struct, frozen=True, kw_only=True):
    """An object's entry, in the words of the NATS object store."""

    name: str
    bucket: str
    nuid: Annotated[str, msgspec.Meta(pattern="^[0-9A-Za-z]+$")]
    size: int
    chunks: int
    digest: str


_description = msgspec.json.Decoder(_Description)


def object_key(data: bytes | bytearray) -> str:
    """The key under which these bytes are or will be stored."""
    return f"sha256-{hashlib.sha256(data).hexdigest()}"


class Objects:
    """The object store of a project."""

    def __init__(self, broker: Broker, subjects: Subjects) -> None:
        self._broker = broker
        self._subjects = subjects
        self._stream = subjects.object_stream(OBJECTS)
        self._fence = Fence(broker, self._stream)

    async def put(self, data: bytes) -> str:
        """Store bytes and return their key; what is there already is not stored again."""
        key, digest = object_key(data), _digest(data)
        if await self._is_stored(key, digest):
            return key
        nuid = secrets.token_hex(11)  # chunks of a put that never finished are never mixed with ours
        chunks = list(_split(data, min(CHUNK_BYTES, self._broker.message_bytes_max - HEADERS_BYTES)))
        subject, sequence = self._subjects.object_chunks(OBJECTS, nuid), 0
        for number, chunk in enumerate(chunks):
            # One by one and each behind the last: chunks are read back in stream order, and one that is sent again
            # after an outage, however long, must neither come late nor stand there twice.
            sequence = await self._fence.append(subject, chunk, f"{nuid}/{number}", sequence)
        description = _Description(
            name=key,
            bucket=self._subjects.bucket(OBJECTS),
            nuid=nuid,
            size=len(data),
            chunks=len(chunks),
            digest=digest,
        )
        subject, value = self._description_subject(key), msgspec.json.encode(description)
        await surely(lambda: self._broker.publish(subject, value, {ROLLUP: "sub"}))
        return key

    async def get(self, key: str) -> bytes:
        """The bytes under a key, checked against it."""
        description = await self._describe(key) if _KEY.fullmatch(key) else None
        if description is None:
            raise ObjectMissingError(key)
        data = bytearray()
        async for message in self._broker.read(self._stream, self._subjects.object_chunks(OBJECTS, description.nuid)):
            data += message.data
            if len(data) > description.size:
                break
        if object_key(data) != key:
            raise ObjectCorruptError(key)
        return bytes(data)

    async def _is_stored(self, key: str, digest: str) -> bool:
        """Whether an object is there; one whose description is somebody else's is not, and is put over it."""
        try:
            description = await self._describe(key)
        except ObjectCorruptError:
            return False
        return description is not None and description.digest == digest

    async def _describe(self, key: str) -> _Description | None:
        subject = self._description_subject(key)
        message = await surely(lambda: self._broker.last(self._stream, subject))
        try:
            return None if message is None else _description.decode(message.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ObjectCorruptError(key) from error

    def _description_subject(self, key: str) -> str:
        return self._subjects.object_meta(OBJECTS, base64.urlsafe_b64encode(key.encode()).decode())


def _digest(data: bytes) -> str:
    return f"SHA-256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()}"


def _split(data: bytes, chunk_bytes: int) -> Iterator[bytes]:
    for start in range(0, len(data), chunk_bytes):
        yield data[start : start + chunk_bytes]
