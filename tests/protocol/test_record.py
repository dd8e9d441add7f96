"""The journal's record: its golden bytes, and what happens to bytes that are none."""

from datetime import UTC, datetime

import msgspec
import pytest

from protocol.codec import encode
from protocol.errors import MalformedMessageError, UnsupportedSchemaError
from protocol.record import Record, decode_record

RECORD = Record(
    n=3,
    machine="coder",
    session="s-1.1",
    incarnation="c0ffee",
    at=datetime(2026, 1, 2, 3, 4, 5, 678000, UTC),
    event=msgspec.Raw(b'{"event":"entered"}'),
    state_from="WAITING",
    state_to="SETUP",
    after=msgspec.Raw(b'{"state":"SETUP","of":"a machine that nobody here knows"}'),
    effects=(msgspec.Raw(b'{"effect":"prepare_workspace"}'),),
)
GOLDEN = (
    b'{"n":3,"machine":"coder","session":"s-1.1","incarnation":"c0ffee","at":"2026-01-02T03:04:05.678000Z",'
    b'"event":{"event":"entered"},"from":"WAITING","to":"SETUP",'
    b'"after":{"state":"SETUP","of":"a machine that nobody here knows"},'
    b'"effects":[{"effect":"prepare_workspace"}],"schema":1}'
)


def test_the_record_is_written_as_it_was() -> None:
    """A difference here breaks the journals that exist: it needs a new schema, a migration and a changelog entry."""
    assert encode(RECORD) == GOLDEN
    assert decode_record(GOLDEN) == RECORD


def test_the_append_id_names_session_step_and_process() -> None:
    assert RECORD.append_id == "s-1.1/3/c0ffee"


def test_fields_of_a_newer_writer_are_passed_over() -> None:
    assert decode_record(GOLDEN.replace(b'"n":3', b'"n":3,"mood":{"good":true}')) == RECORD


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (GOLDEN[:-1], "not JSON"),
        (GOLDEN.replace(b'"SETUP","of"', b'"SETUP","deep":' + b"[" * 100_000), "not JSON"),
        (b"[]", "Expected `object`"),
        (GOLDEN.replace(b'"n":3', b'"n":-1'), "`$.n`"),
        (GOLDEN.replace(b'"n":3,', b""), "missing required field `n`"),
        (GOLDEN.replace(b"678000Z", b"678000"), "`$.at`"),
    ],
)
def test_what_is_no_record_is_refused_with_the_reason_and_its_bytes(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessageError, match=reason.replace("$", r"\$")) as caught:
        decode_record(data)

    assert caught.value.data == data


@pytest.mark.parametrize("n", [b'"n":3', b'"number":3'])
def test_another_schema_is_the_reason_even_where_fields_are_missing(n: bytes) -> None:
    data = GOLDEN.replace(b'"schema":1', b'"schema":2').replace(b'"n":3', n)

    with pytest.raises(UnsupportedSchemaError) as caught:
        decode_record(data)

    assert (caught.value.found, caught.value.supported) == (2, 1)
