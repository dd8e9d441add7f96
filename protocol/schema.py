"""The JSON Schema of everything that travels: envelopes with their payloads, and journal records."""

from typing import Any

import msgspec

from protocol.messages import Envelope
from protocol.record import Record


def json_schema() -> dict[str, Any]:
    """One document: `envelope` and `record` refer to the definitions below `$defs`."""
    (envelope, record), definitions = msgspec.json.schema_components([Envelope, Record], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Callboard",
        "anyOf": [envelope, record],
        "$defs": definitions,
    }
