"""What can go wrong in a call of the model, and what follows from each: a table. Pure.

Transient: try again, with growing pauses; when that is used up the session suspends. Everything else is an error that
says what to do; where a person can do it, the person is asked and the session stays where it is.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from actors.errors import EffectError
from actors.thinking.effects import Purpose
from actors.thinking.errors import (
    BadRequestError,
    BillingError,
    ContextFullError,
    DayBudgetError,
    KeyRefusedError,
    ModelChangedError,
    ModelGoneError,
    OutputLimitError,
    PermissionRefusedError,
    SpecBudgetError,
    SpendLimitError,
    StoryBudgetError,
)
from bus.ledger.amounts import Amount, Usage

Transient = Literal[
    "rate_limited", "overloaded", "server_error", "unreachable", "timed_out", "stalled", "cut", "malformed"
]
Permanent = Literal[
    "key", "permission", "billing", "spend_limit", "model_gone", "context_full", "output_limit", "bad_request"
]

ERRORS: Mapping[str, type[EffectError]] = {
    "key": KeyRefusedError,
    "permission": PermissionRefusedError,
    "billing": BillingError,
    "spend_limit": SpendLimitError,
    "model_gone": ModelGoneError,
    "context_full": ContextFullError,
    "output_limit": OutputLimitError,
    "bad_request": BadRequestError,
}
CANNOT_GO_ON = (ContextFullError.__name__, ModelChangedError.__name__)
"""What a conversation begins anew for."""
OUTPUT_LIMIT = OutputLimitError.__name__
STORY_BUDGET = StoryBudgetError.__name__


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """One call that failed."""

    kind: Transient | Permanent
    said: str
    status: int = 0
    retry_after_seconds: float | None = None
    request: str = ""
    """The provider's id of the request, for its support."""
    reached: bool = False
    """Whether the model may have begun to work, so that the call may have to be paid."""
    usage: Usage | None = None
    """What was heard of its usage before it broke."""

    @property
    def error(self) -> type[EffectError] | None:
        """What it is, if trying again does not help."""
        return ERRORS.get(self.kind)

    def __str__(self) -> str:
        facts = [f"status {self.status}"] if self.status else []
        facts += [f"request {self.request}"] if self.request else []
        where = f" ({', '.join(facts)})" if facts else ""
        return f"{self.kind.replace('_', ' ')}: {self.said}{where}"


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long a call is tried."""

    attempts_max: int = 6
    total_seconds: float = 900.0
    pause_seconds: float = 0.5
    pause_seconds_max: float = 30.0
    retry_after_seconds_max: float = 120.0


def pause_after(patience: Patience, trouble: Trouble, attempts: int, elapsed: float, chance: float) -> float | None:
    """How long to wait after so many attempts in so much time; None: it is enough. `chance` is from 0 to 1."""
    if trouble.error is not None or attempts >= patience.attempts_max:
        return None
    pause = min(patience.pause_seconds * 2.0 ** (attempts - 1), patience.pause_seconds_max) * (0.5 + chance / 2)
    if trouble.retry_after_seconds is not None:
        # A little more than it says: all who were told the same would come at the same moment.
        told = min(max(trouble.retry_after_seconds, 0.0), patience.retry_after_seconds_max)
        pause = max(pause, told * (1 + chance / 10))
    return pause if elapsed + pause < patience.total_seconds else None


# What a person is asked.


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a person has to settle; each choice leads to `again`, `raise`, `once`, `exhausted` or `stop`."""

    text: str
    context: str
    choices: dict[str, str]
    scope: str = ""
    name: str = ""
    raised: Amount | None = None


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Which ceiling was in the way, and what a person had added to it by then: the evidence of a budget's error."""

    scope: str
    name: str
    raised: Amount


_AGAIN = {"try again": "again", "give up": "stop"}
BUDGET_CHOICES = {
    "raise": "raise",
    "continue once": "once",
    "try again": "again",
    "pivot": "exhausted",
    "abandon": "stop",
}

_OF_BUDGETS = {SpecBudgetError.__name__: "spec", DayBudgetError.__name__: "day"}
_TEXTS: Mapping[str, tuple[str, str]] = {
    "MissingKeyError": (
        "There is no key for the model provider. Set one, then say `try again`.",
        "Set CALLBOARD_ANTHROPIC_API_KEY or ANTHROPIC_API_KEY and start the company again, or name a file by "
        '`model.key = "file:PATH"` in callboard.toml.',
    ),
    "KeyRefusedError": (
        "The model provider does not accept the key. Give another one, then say `try again`.",
        "A key in a variable is read when the company starts; one in a file (`model.key`) at every call.",
    ),
    "PermissionRefusedError": (
        "The key for the model provider may not do this. Give it the right, or another key, then say `try again`.",
        "Most often the key's workspace has no access to the model.",
    ),
    "BillingError": (
        "The account at the model provider cannot be charged. See to its credit, then say `try again`.",
        "Nothing is lost meanwhile, and nothing is tried.",
    ),
    "SpendLimitError": (
        "A spend limit at the model provider is reached. Raise it there, then say `try again`.",
        "It was set for the organization or the workspace, not in Callboard.",
    ),
    "ModelGoneError": (
        "The model provider does not have this model. Name another one, then say `try again`.",
        '`model.ROLE.name` in callboard.toml, for example `[model.coder] name = "claude-sonnet-5-5"`; '
        "the company reads it when it starts.",
    ),
    "OutputLimitError": (
        "The model gives no answers as long as the settings ask for. Set a smaller limit, then say `try again`.",
        "`model.ROLE.max_tokens` in callboard.toml; the company reads it when it starts.",
    ),
    "ContentRefusedError": (
        "The model refuses what it was asked. Try again, or give up?",
        "Asking the same again seldom helps; another model may answer (`model.ROLE.name`).",
    ),
    "SpecBudgetError": ("The budget of a spec is used up. How does it go on?", "`bus cost` shows what it went into."),
    "DayBudgetError": ("The budget of the day is used up. How does it go on?", "`bus cost` shows what it went into."),
}


_refused = msgspec.json.Decoder(Refused)


def question_about(error: str, reason: str, evidence: str, purpose: Purpose) -> Question | None:
    """What a person is asked because of an error; None if no person can help."""
    if error not in _TEXTS:
        return None
    text, context = _TEXTS[error]
    whose = f"{purpose.role}{f', story {purpose.story}' if purpose.story else ''}"
    asked = Question(text=f"{text} ({whose})", context=f"{reason}\n{context}", choices=_AGAIN)
    if error not in _OF_BUDGETS:
        return asked
    scope, refused = _OF_BUDGETS[error], _refused_in(evidence)
    name = purpose.spec if scope == "spec" else refused.name if refused else ""
    return msgspec.structs.replace(
        asked, choices=BUDGET_CHOICES, scope=scope, name=name, raised=refused.raised if refused else None
    )


def _refused_in(evidence: str) -> Refused | None:
    """What is still in the evidence: secrets are taken out of it, and a spec can be called like one."""
    try:
        return _refused.decode(evidence)
    except msgspec.DecodeError:
        return None
