"""The events of a stream, in the API's order and form. Pure."""

from collections.abc import Iterator

import msgspec

from actors.rehearsal.composing import Composed, Piece
from actors.rehearsal.prompt import Json

PIECES = 4
PIECE_CHARACTERS_MIN = 6
PING: Json = {"type": "ping"}


def stream(composed: Composed, usage: Json, diagnostics: Json | None) -> Iterator[Json]:
    """Every event of an answer."""
    yield {"type": "message_start", "message": _beginning(composed, usage, diagnostics)}
    for index, piece in enumerate(composed.pieces):
        yield from _block(index, piece)
        if index == 0:
            yield PING
    if not composed.pieces:
        yield PING
    yield {
        "type": "message_delta",
        "delta": {
            "stop_reason": composed.stop_reason,
            "stop_sequence": composed.stop_sequence,
            "stop_details": composed.stop_details,
        },
        "usage": _cumulative(usage),
    }
    yield {"type": "message_stop"}


def render(event: Json) -> bytes:
    """An event as it is sent."""
    return b"event: " + str(event["type"]).encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"


def _beginning(composed: Composed, usage: Json, diagnostics: Json | None) -> Json:
    return {
        "id": composed.id,
        "type": "message",
        "role": "assistant",
        "model": composed.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "usage": {name: value for name, value in usage.items() if name != "output_tokens_details"}
        | {"output_tokens": 1},
        "diagnostics": diagnostics,
    }


def _cumulative(usage: Json) -> Json:
    names = (
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
        "output_tokens_details",
    )
    return {name: usage[name] for name in names}


def _block(index: int, piece: Piece) -> Iterator[Json]:
    block = piece.block
    match block["type"]:
        case "text":
            empty, deltas = block | {"text": ""}, _deltas("text_delta", "text", block["text"])
        case "thinking":
            empty = block | {"thinking": "", "signature": ""}
            deltas = [
                *_deltas("thinking_delta", "thinking", block["thinking"]),
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case _:
            empty = block | {"input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": ""},
                *_deltas("input_json_delta", "partial_json", piece.raw),
            ]
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _deltas(kind: str, field: str, text: str) -> list[Json]:
    size = max(PIECE_CHARACTERS_MIN, -(-len(text) // PIECES))
    return [{"type": kind, field: text[start : start + size]} for start in range(0, len(text), size)]
