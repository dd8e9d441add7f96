"""Ids and signatures that follow from the conversation alone, and prove by themselves that they are ours. Pure.

So nothing has to be remembered: the same request gives the same answer from another process, and a thinking block
that was changed, moved or dropped is known for it after a restart, too.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable

from actors.rehearsal.prompt import Json, Prompt, canonical

KEY = b"callboard rehearsal"
"""No secret: it tells an honest client what it has done wrong, and keeps nobody out."""
_ALPHABET = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_NONCE, _PROOF = 10, 6
_CALL, _PAUSE = "toolu_01", "srvtoolu_01"
_SIGNATURE_BYTES = 48


def digest(*parts: bytes) -> bytes:
    """A digest in which the parts cannot run into one another."""
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def seal(*parts: bytes) -> bytes:
    """The same, which only this server makes."""
    return hmac.digest(KEY, digest(*parts), "sha256")


def spell(raw: bytes, length: int) -> str:
    """A digest in the letters of the API's ids."""
    number = int.from_bytes(raw, "big")
    letters = []
    for _ in range(length):
        number, place = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return "".join(letters)


def conversation_digest(prompt: Prompt) -> bytes:
    """By what a conversation is the same: everything that the model reads, and which model."""
    blocks = [part for section, role, block in prompt.blocks() for part in (_mark(section, role), canonical(block))]
    return digest(prompt.model.encode(), *blocks)


def _mark(section: str, role: str) -> bytes:
    return f"{section} {role}".encode()


# Thinking.


class Past:
    """By what a thinking block belongs to its conversation: every block before it that is no thinking."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, role: str, block: Json) -> None:
        """This was next."""
        if block.get("type") not in ("thinking", "redacted_thinking"):
            self._hash.update(digest(role.encode(), canonical(block)))

    def digest(self) -> bytes:
        """What was until now."""
        return self._hash.digest()


def past_of(prompt: Prompt) -> bytes:
    """What an answer to a prompt is bound to."""
    past = Past()
    for turn in prompt.turns:
        for block in turn.blocks:
            past.add(turn.role, block)
    return past.digest()


def sign(thinking: str, conversation: bytes, model: str, place: int, bound: bytes) -> str:
    """The signature of the `place`th thinking block of an answer."""
    nonce = digest(b"nonce", conversation, str(place).encode())[:16]
    text = seal(b"thinking", nonce, thinking.encode())[:16]
    where = seal(b"binding", nonce, model.encode(), bound)[:16]
    return base64.b64encode(nonce + text + where).decode()


def is_genuine(thinking: str, signature: str) -> bool:
    """Whether the text of a thinking block is the one that was signed."""
    raw = _raw(signature)
    return bool(raw) and hmac.compare_digest(seal(b"thinking", raw[:16], thinking.encode())[:16], raw[16:32])


def is_bound(signature: str, model: str, bound: bytes) -> bool:
    """Whether a thinking block was made by this model after these blocks."""
    raw = _raw(signature)
    return bool(raw) and hmac.compare_digest(seal(b"binding", raw[:16], model.encode(), bound)[:16], raw[32:])


def _raw(signature: str) -> bytes:
    try:
        raw = base64.b64decode(signature, validate=True)
    except ValueError:
        return b""
    return raw if len(raw) == _SIGNATURE_BYTES else b""


# Ids.


def message_id(conversation: bytes, answer: bytes) -> str:
    """The id of the answer to a conversation."""
    return f"msg_01{spell(digest(b'message', conversation, answer), 22)}"


def call_id(conversation: bytes, place: int, signatures: Iterable[str]) -> str:
    """The id of the `place`th call of an answer, which knows the thinking that went before it."""
    nonce = spell(digest(b"call", conversation, str(place).encode()), _NONCE)
    return f"{_CALL}{nonce}{_proof(b'ours', nonce)}{_proof(b'thought', nonce, *signatures)}"


def is_thought(identifier: str, signatures: Iterable[str]) -> bool:
    """Whether a call has the thinking beside it that it was made with; true of ids that are not from here."""
    body = identifier.removeprefix(_CALL)
    nonce, ours, thought = body[:_NONCE], body[_NONCE : _NONCE + _PROOF], body[_NONCE + _PROOF :]
    if not identifier.startswith(_CALL) or ours != _proof(b"ours", nonce):
        return True
    return thought == _proof(b"thought", nonce, *signatures)


def pause_id(conversation: bytes) -> str:
    """The id of what a paused turn was at."""
    nonce = spell(digest(b"pause", conversation), _NONCE)
    return f"{_PAUSE}{nonce}{_proof(b'pause', nonce)}{_proof(b'paused', nonce)}"


def is_pause(identifier: str) -> bool:
    """Whether that was paused here."""
    body = identifier.removeprefix(_PAUSE)
    nonce = body[:_NONCE]
    return identifier.startswith(_PAUSE) and body[_NONCE:] == _proof(b"pause", nonce) + _proof(b"paused", nonce)


def _proof(what: bytes, nonce: str, *more: str) -> str:
    return spell(seal(what, nonce.encode(), *(each.encode() for each in more)), _PROOF)
