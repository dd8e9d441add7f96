"""Publishing a spec, once per content: which revision it is stands on the board, and the message's id follows from it.

The revision is claimed first and marked as sent last, so a publisher that dies in between is completed by the next
one with the same id, and the receiver's marks refuse the repetition.
"""

import hashlib
from datetime import datetime
from typing import Literal

import msgspec

from bus.board import Posted
from bus.bus import Bus
from bus.errors import NotAcknowledgedError
from protocol.codec import encode
from protocol.errors import MalformedMessageError
from protocol.marks import message_id
from protocol.messages import Envelope, SpecUpload
from protocol.routing import address

INLINE_BYTES_MAX = 192 * 1024
CLAIMS_MAX = 100


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What the board says of a spec."""

    spec: str
    revision: int
    digest: str
    recipient: str
    sent: bool


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """What publishing did."""

    status: Literal["published", "revised", "unchanged"]
    spec: str
    revision: int
    digest: str


_published = msgspec.json.Decoder(Published)


async def publish_spec(bus: Bus, *, spec: str, markdown: str, edition: str, now: datetime) -> Publication:
    """Send a valid spec to whoever takes specs in this edition; the same text again sends nothing."""
    digest = _digest(markdown)
    wanted = Published(spec=spec, revision=1, digest=digest, recipient=_recipient(edition), sent=False)
    key = f"specs.{spec}"
    for _ in range(CLAIMS_MAX):
        posted = await bus.board.get(key)
        before = _read(posted)
        claim = _claim(before, wanted)
        if claim.sent:
            return Publication(status="unchanged", spec=spec, revision=claim.revision, digest=digest)
        revision = await bus.board.replace(key, encode(claim), posted.revision if posted else 0)
        if revision is None:
            continue  # somebody else published meanwhile: look again
        await bus.mail.send(await _envelope(bus, claim, markdown, now))
        await bus.board.replace(key, encode(msgspec.structs.replace(claim, sent=True)), revision)
        status: Literal["published", "revised"] = "published" if claim.revision == 1 else "revised"
        return Publication(status=status, spec=spec, revision=claim.revision, digest=digest)
    raise NotAcknowledgedError(key, f"others changed it {CLAIMS_MAX} times meanwhile; publish again")


def _digest(markdown: str) -> str:
    """The text's name: line ends and a byte order mark, which editors change by themselves, do not count."""
    text = markdown.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return hashlib.sha256(text.encode()).hexdigest()


def _read(posted: Posted | None) -> Published | None:
    if posted is None or posted.value is None:
        return None
    try:
        return _published.decode(posted.value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = f"what stands on the board under {posted.key} was not written by publishing: {error}"
        raise MalformedMessageError(reason, posted.value) from error


def _recipient(edition: str) -> str:
    return address("architect" if edition == "classic" else "pm", "main")


def _claim(before: Published | None, wanted: Published) -> Published:
    """What stands there if it is the same text for the same recipient, sent or perhaps not; else the next revision."""
    if before is None:
        return wanted
    if (before.digest, before.recipient) == (wanted.digest, wanted.recipient):
        return before
    return msgspec.structs.replace(wanted, revision=before.revision + 1)


async def _envelope(bus: Bus, claim: Published, markdown: str, now: datetime) -> Envelope:
    """The message that carries the spec, or where it is large its key in the object store."""
    upload = SpecUpload(spec=claim.spec, revision=claim.revision, markdown=markdown, digest=claim.digest)
    envelope = Envelope(
        id=message_id(f"spec.{claim.spec}", claim.revision, 0),
        kind="REQUEST",
        sender=address("person", "person"),
        recipient=claim.recipient,
        payload=upload,
        sent_at=now,
    )
    data = markdown.encode()
    if len(data) <= INLINE_BYTES_MAX and len(encode(envelope)) <= bus.post.letter_bytes_max:
        return envelope
    by_reference = msgspec.structs.replace(upload, markdown="", object=await bus.objects.put(data))
    return msgspec.structs.replace(envelope, payload=by_reference)
