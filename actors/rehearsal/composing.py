"""From an answer to the API's message: blocks with ids and signatures, and where the answer is cut off. Pure."""

from collections.abc import Iterator
from typing import Any

import msgspec

from actors.rehearsal import seals
from actors.rehearsal.models import Model
from actors.rehearsal.parts import Answer, Call
from actors.rehearsal.prompt import Json, Prompt, thinking_type
from actors.rehearsal.tokens import BLOCK_TOKENS, BYTES_PER_TOKEN, count_input, count_text

PAUSED_AT: Json = {"name": "web_search", "input": {"query": "callboard"}}
"""The tool of the server's own that a paused turn is at."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One block of an answer; `raw` is the JSON of a call's input, which may be cut off anywhere."""

    block: Json
    raw: str = ""


class Composed(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer, but for what the input cost."""

    id: str
    model: str
    pieces: tuple[Piece, ...]
    stop_reason: str
    stop_sequence: str | None
    stop_details: Json | None
    output_tokens: int
    thinking_tokens: int


def compose(prompt: Prompt, model: Model, answer: Answer, input_tokens: int) -> Composed:
    """What the model says, within the limits of the request and of its window."""
    conversation = seals.conversation_digest(prompt)
    text, stop_sequence = _until(answer.text, prompt.body.get("stop_sequences") or ())
    room = min(prompt.body["max_tokens"], model.max_input_tokens - input_tokens)
    budget = _Budget(room)
    pieces = list(_pieces(prompt, model, answer, text, bool(stop_sequence), conversation, budget))
    if budget.is_cut:
        is_limit = room == prompt.body["max_tokens"]
        reason, stop_sequence = "max_tokens" if is_limit else "model_context_window_exceeded", None
    else:
        reason = (
            "stop_sequence" if stop_sequence else answer.stop_reason or ("tool_use" if answer.calls else "end_turn")
        )
    return Composed(
        id=seals.message_id(conversation, msgspec.json.encode([piece.block for piece in pieces] + [reason])),
        model=prompt.model,
        pieces=tuple(pieces),
        stop_reason=reason,
        stop_sequence=stop_sequence,
        stop_details=_details(answer) if reason == "refusal" else None,
        output_tokens=budget.spent,
        thinking_tokens=budget.thinking,
    )


def message_of(composed: Composed, usage: Json, diagnostics: Json | None) -> Json:
    """The message as it is in an answer that is not streamed."""
    return {
        "id": composed.id,
        "type": "message",
        "role": "assistant",
        "model": composed.model,
        "content": [piece.block for piece in composed.pieces],
        "stop_reason": composed.stop_reason,
        "stop_sequence": composed.stop_sequence,
        "stop_details": composed.stop_details,
        "usage": usage,
        "diagnostics": diagnostics,
    }


class _Budget:
    """What may still be said."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.spent = 0
        self.thinking = 0
        self.is_cut = False

    @property
    def left(self) -> int:
        return max(0, self._limit - self.spent)

    def spend(self, tokens: int) -> None:
        self.spent += min(tokens, self.left)

    def take(self, text: str, overhead: int = BLOCK_TOKENS) -> str | None:
        """As much of a text as there is room for; None when there is room for none of it."""
        if self.is_cut or self.left <= overhead:
            self.is_cut = True
            return None
        self.spend(overhead)
        wanted = count_text(text)
        if wanted <= self.left:
            self.spend(wanted)
            return text
        kept = text.encode()[: self.left * BYTES_PER_TOKEN].decode(errors="ignore")
        self.spend(self.left)
        self.is_cut = True
        return kept


def _until(text: str, stops: Any) -> tuple[str, str | None]:
    """A text up to the first of the sequences that end it, and which one that is."""
    found = [(text.index(stop), stop) for stop in stops if stop in text]
    if not found:
        return text, None
    place, stop = min(found)
    return text[:place], stop


def _pieces(  # noqa: PLR0913, PLR0917 -- all that an answer is made of
    prompt: Prompt, model: Model, answer: Answer, text: str, is_stopped: bool, conversation: bytes, budget: _Budget
) -> Iterator[Piece]:
    signatures = []
    thinks = thinking_type(prompt.body, model.thinks_unasked) in ("adaptive", "enabled")
    if answer.thinking and thinks and (thought := budget.take(answer.thinking)) is not None:
        budget.thinking = budget.spent
        shown = thought if _shows_thinking(prompt, model) else ""
        signatures.append(seals.sign(shown, conversation, prompt.model, 0, seals.past_of(prompt)))
        yield Piece(block={"type": "thinking", "thinking": shown, "signature": signatures[0]})
    if text.strip() and (said := budget.take(text) or "").strip():
        yield Piece(block={"type": "text", "text": said})
    if answer.stop_reason == "pause_turn" and not budget.is_cut:
        paused = {"type": "server_tool_use", "id": seals.pause_id(conversation), **PAUSED_AT}
        budget.spend(BLOCK_TOKENS + count_input(paused["name"], paused["input"]))
        yield Piece(block=paused, raw=_json(paused["input"]))
    if not is_stopped:
        for place, call in enumerate(_allowed(prompt, answer.calls)):
            yield from _call(call, seals.call_id(conversation, place, signatures), budget)
    budget.spend(1)  # The end of the turn: even an empty answer is one.


def _call(call: Call, identifier: str, budget: _Budget) -> Iterator[Piece]:
    raw = budget.take(_json(call.input), BLOCK_TOKENS + count_text(call.name))
    if raw is not None:
        read = dict(call.input) if not budget.is_cut else _read_cut(raw)
        yield Piece(block={"type": "tool_use", "id": identifier, "name": call.name, "input": read}, raw=raw)


def _allowed(prompt: Prompt, calls: tuple[Call, ...]) -> tuple[Call, ...]:
    choice: Any = prompt.body.get("tool_choice") or {}
    return calls[:1] if choice.get("disable_parallel_tool_use") else calls


def _shows_thinking(prompt: Prompt, model: Model) -> bool:
    said: Any = prompt.body.get("thinking") or {}
    display = said.get("display")
    return model.shows_thinking if display is None else display == "summarized"


def _details(answer: Answer) -> Json:
    return {"type": "refusal", "category": answer.category or None, "explanation": None}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _read_cut(raw: str) -> Json:
    """What can be read of an object that is cut off: its members that are whole."""
    depth, end, is_text, is_escaped = 0, 0, False, False
    for place, letter in enumerate(raw):
        if is_escaped:
            is_escaped = False
        elif letter == "\\":
            is_escaped = True
        elif letter == '"':
            is_text = not is_text
        elif not is_text:
            depth += (letter in "{[") - (letter in "}]")
            end = place if letter == "," and depth == 1 else end
    read: Json = msgspec.json.decode(raw[:end] + "}") if end else {}
    return read
