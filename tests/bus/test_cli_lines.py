"""A record as one line for a person: what went wrong is in it."""

import msgspec
import pytest

from bus.cli.lines import record_line
from tests.contract.samples import a_record


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({"failing": {"kind": "bug", "reason": "KeyError: 'x'", "evidence": "…"}}, "timer  ✗ bug: KeyError: 'x'"),
        ({"suspension": {"service": "model"}}, "timer  … model is out of reach"),
        ({"failing": None}, "timer"),
        ({"failing": "of another kind"}, "timer"),
        ([], "timer"),
    ],
)
def test_a_record_says_why_it_fails_or_waits(after: object, said: str) -> None:
    record = msgspec.structs.replace(a_record(), after=msgspec.Raw(msgspec.json.encode(after)))

    assert record_line(record).endswith(said)
