"""The JSON Schema of everything that travels: envelopes with their payloads, and journal records."""

from inspect import cleandoc
from typing import Any

import msgspec

from protocol.messages import Envelope
from protocol.record import Record


def json_schema() -> dict[str, Any]:
    """One document: `envelope` and `record` refer to the definitions below `$defs`."""
    (envelope, record), definitions = msgspec.json.schema_components([Envelope, Record], ref_template="#/$defs/{name}")
    for definition in definitions.values():
        if "description" in definition:
            definition["description"] = cleandoc(definition["description"])  # a docstring, as the source indents it
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Callboard",
        "anyOf": [envelope, record],
        "$defs": definitions,
    }
