"""What is kept of an error: why, in a sentence, and what is known of it; without secrets and of limited length.

Secrets are taken out of the whole text before any of it is cut: half a secret is no longer recognised.
"""

import traceback

from actors.redaction import clean, printable

EVIDENCE_CHARACTERS_MAX = 2000
REASON_CHARACTERS_MAX = 1000
BEGINNING_LEFT_OUT = "[beginning left out] …"
END_LEFT_OUT = "… [end left out]"


def evidence_of(error: BaseException) -> str:
    """The error's traceback, as evidence."""
    return as_evidence("".join(traceback.format_exception(error)))


def reason_of(error: BaseException) -> str:
    """The error's own words, as a reason."""
    return as_reason(printable(error))


def as_evidence(text: str) -> str:
    """A text as it may be recorded: the end of a traceback or a log says most."""
    whole = clean(text)
    if len(whole) <= EVIDENCE_CHARACTERS_MAX:
        return whole
    return BEGINNING_LEFT_OUT + whole[len(BEGINNING_LEFT_OUT) - EVIDENCE_CHARACTERS_MAX :]


def as_reason(text: str) -> str:
    """A text as it may be recorded: the beginning of a sentence says most."""
    whole = clean(text)
    if len(whole) <= REASON_CHARACTERS_MAX:
        return whole
    return whole[: REASON_CHARACTERS_MAX - len(END_LEFT_OUT)] + END_LEFT_OUT
