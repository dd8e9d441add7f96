"""What a failure leaves in the journal: without secrets, of limited length, and with what matters kept."""

import re

import pytest

from actors.core.failures import Broken, Cancelled, Unavailable
from actors.errors import EffectCancelledError, EffectError, ServiceUnavailableError
from actors.evidence import (
    EVIDENCE_CHARACTERS_MAX,
    REASON_CHARACTERS_MAX,
    as_evidence,
    as_reason,
    evidence_of,
    reason_of,
)
from actors.redaction import HIDDEN, remember_secrets
from actors.runtime.executors import failure_of

PLANTED = "0123456789" * 3
DIGIT = re.compile(r"\d")


@pytest.fixture(autouse=True)
def planted() -> None:
    remember_secrets([PLANTED])


def raised(error: Exception) -> Exception:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


@pytest.mark.parametrize("part", range(len(PLANTED) + 1))
def test_no_part_of_a_secret_is_left_wherever_the_cut_falls(part: int) -> None:
    evidence = as_evidence("x" * 50 + PLANTED + "y" * (EVIDENCE_CHARACTERS_MAX - part))
    reason = as_reason("x" * (REASON_CHARACTERS_MAX - part) + PLANTED + "y" * 50)

    assert DIGIT.search(evidence + reason) is None


def test_a_traceback_keeps_its_end_and_says_that_its_beginning_is_missing() -> None:
    evidence = evidence_of(raised(ValueError("a" * 3 * EVIDENCE_CHARACTERS_MAX + " the end")))

    assert len(evidence) == EVIDENCE_CHARACTERS_MAX
    assert evidence.startswith("[beginning left out] …")
    assert evidence.endswith("aaa the end\n")


def test_a_short_traceback_is_whole() -> None:
    evidence = evidence_of(raised(ValueError(f"the key {PLANTED} is wrong")))

    assert evidence.startswith("Traceback (most recent call last):\n")
    assert evidence.endswith(f"ValueError: the key {HIDDEN} is wrong\n")


def test_a_reason_keeps_its_beginning_and_says_that_its_end_is_missing() -> None:
    reason = as_reason("the beginning " + "a" * REASON_CHARACTERS_MAX)

    assert len(reason) == REASON_CHARACTERS_MAX
    assert reason.startswith("the beginning aaa")
    assert reason.endswith("… [end left out]")


def test_what_is_no_unicode_can_be_recorded_all_the_same() -> None:
    assert as_evidence("caf\udce9") == "caf\\udce9"
    assert as_reason("caf\udce9") == "caf\\udce9"


class UnspeakableError(Exception):
    """Has no text, and says so with an error."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_without_a_text_is_a_failure_like_any_other() -> None:
    assert reason_of(UnspeakableError()) == "an UnspeakableError that cannot be printed"
    assert evidence_of(UnspeakableError()) == "tests.actors.test_evidence.UnspeakableError: <exception str() failed>\n"


LONG = f"{PLANTED} " + "l" * 3 * EVIDENCE_CHARACTERS_MAX


def test_every_failure_of_an_executor_is_without_secrets_and_limited() -> None:
    reason, evidence = as_reason(LONG), as_evidence(LONG)

    assert failure_of(EffectError(LONG, LONG)) == Broken(error="EffectError", reason=reason, evidence=evidence)
    assert failure_of(EffectCancelledError(LONG)) == Cancelled(reason=reason)
    assert failure_of(ServiceUnavailableError(LONG, LONG)) == Unavailable(service=reason, reason=reason)
    unforeseen = raised(KeyError(LONG))
    assert failure_of(unforeseen) == Broken(
        error="KeyError", reason=as_reason(repr(LONG)), evidence=evidence_of(unforeseen)
    )
    assert HIDDEN in reason
