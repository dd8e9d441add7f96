"""What is kept of an error: why, in a sentence, and what is known of it; without secrets and of limited length.

Secrets are taken out before anything near them is cut: half a secret is no longer recognised.
"""

import traceback

from actors.redaction import clean, printable

EVIDENCE_CHARACTERS_MAX = 2000
REASON_CHARACTERS_MAX = 1000
CLEANED_CHARACTERS_MAX = 1 << 16
"""So much of a text is looked at: far more than is kept, so that a secret which it cuts in half is not among that."""
BEGINNING_LEFT_OUT = "[beginning left out] …"
END_LEFT_OUT = "… [end left out]"


def evidence_of(error: BaseException) -> str:
    """The error's traceback, as evidence."""
    return as_evidence("".join(traceback.format_exception(error)))


def reason_of(error: BaseException) -> str:
    """The error's own words, as a reason."""
    return as_reason(error)


def as_evidence(text: object) -> str:
    """A text, or what somebody took for one, as it may be recorded: the end of a traceback or a log says most."""
    whole = clean(printable(text)[-CLEANED_CHARACTERS_MAX:])
    if len(whole) <= EVIDENCE_CHARACTERS_MAX:
        return whole
    return BEGINNING_LEFT_OUT + whole[len(BEGINNING_LEFT_OUT) - EVIDENCE_CHARACTERS_MAX :]


def as_reason(text: object) -> str:
    """The same for a sentence, of which the beginning says most."""
    whole = clean(printable(text)[:CLEANED_CHARACTERS_MAX])
    if len(whole) <= REASON_CHARACTERS_MAX:
        return whole
    return whole[: REASON_CHARACTERS_MAX - len(END_LEFT_OUT)] + END_LEFT_OUT
