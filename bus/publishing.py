"""Publishing a spec, once per content: which revision it is stands on the board, and the message's id follows from it.

The revision is claimed first and marked as sent last, so a publisher that dies in between is completed by the next
one with the same id, and the receiver's marks refuse the repetition.
"""

import hashlib
from datetime import datetime
from typing import Literal

import msgspec

from bus.bus import Bus
from protocol.codec import encode
from protocol.marks import message_id
from protocol.messages import Envelope, SpecUpload
from protocol.routing import address

INLINE_BYTES_MAX = 256 * 1024
CLAIMS_MAX = 100


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What the board says of a spec."""

    spec: str
    revision: int
    digest: str
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
    digest = hashlib.sha256(markdown.encode()).hexdigest()
    key = f"specs.{spec}"
    for _ in range(CLAIMS_MAX):
        posted = await bus.board.get(key)
        before = _published.decode(posted.value) if posted is not None and posted.value is not None else None
        if before is not None and before.digest == digest and before.sent:
            return Publication(status="unchanged", spec=spec, revision=before.revision, digest=digest)
        claim = before
        if claim is None or claim.digest != digest:
            number = 1 if before is None else before.revision + 1
            claim = Published(spec=spec, revision=number, digest=digest, sent=False)
        revision = await bus.board.replace(key, encode(claim), posted.revision if posted else 0)
        if revision is None:
            continue  # somebody else published meanwhile: look again
        await bus.mail.send(await _envelope(bus, claim, markdown, edition, now))
        await bus.board.replace(key, encode(msgspec.structs.replace(claim, sent=True)), revision)
        status: Literal["published", "revised"] = "published" if claim.revision == 1 else "revised"
        return Publication(status=status, spec=spec, revision=claim.revision, digest=digest)
    raise RuntimeError(f"{key} changed {CLAIMS_MAX} times while it was being published")


async def _envelope(bus: Bus, claim: Published, markdown: str, edition: str, now: datetime) -> Envelope:
    data = markdown.encode()
    by_reference = len(data) > INLINE_BYTES_MAX
    upload = SpecUpload(
        spec=claim.spec,
        revision=claim.revision,
        markdown="" if by_reference else markdown,
        object=await bus.objects.put(data) if by_reference else "",
        digest=claim.digest,
    )
    return Envelope(
        id=message_id(f"spec.{claim.spec}", claim.revision, 0),
        kind="REQUEST",
        sender=address("person", "person"),
        recipient=address("architect" if edition == "classic" else "pm", "main"),
        payload=upload,
        sent_at=now,
    )
