"""What an actor asks of its model and of its tools, and what comes of it."""

import msgspec

from actors.core.effects import Effect
from actors.core.results import Result
from bus.ledger.amounts import Amount, Usage
from protocol.subjects import Role


class Purpose(msgspec.Struct, frozen=True, kw_only=True):
    """For what the model is asked: whose settings hold, and on whose account it goes."""

    role: Role
    state: str
    story: str = ""
    spec: str = ""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What stands before a conversation and never changes in it: the system's texts, and the tools as JSON."""

    system: tuple[str, ...]
    tools: str = "[]"


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """What the model wants done; `input` is JSON."""

    id: str
    name: str
    input: str


class AskModel(Effect, frozen=True, kw_only=True):
    """Have the model say its next turn. What was said before is in the journal, from `position` on.

    One with an `opening` begins a conversation, which is called by its id. `says` is JSON of the content of the
    user's message; empty where the model only goes on with what it has begun.
    """

    purpose: Purpose
    says: str
    opening: Opening | None = None
    conversation: str = ""
    position: int = 0
    after: str = ""
    """The provider's id of the model's last message, which tells what this follows, and why a cache was missed."""
    max_tokens: int = 0
    """How long the answer may be; 0: as the settings say."""


class RunTool(Effect, frozen=True, kw_only=True):
    """Have a tool do something in the actor's workspace."""

    purpose: Purpose
    call: ToolCall


class RaiseBudget(Effect, frozen=True, kw_only=True):
    """A person's word that an account may have its ceiling once more, or one call whatever it costs.

    `raised` is what had been added to it by the time of the refusal, so that several who ask about the same raise it
    once; None where nobody knows any more.
    """

    reaches_outside = False

    scope: str
    name: str
    raised: Amount | None = None
    once: bool = False


class ModelAnswered(Result, frozen=True, kw_only=True):
    """A whole turn of the model. `content` is JSON of its blocks, to the byte as it is sent back."""

    conversation: str
    position: int
    message: str
    model: str
    """Which one has answered; `asked_model` is what it was called by."""
    stop_reason: str
    content: str
    usage: Usage
    asked_model: str = ""
    tries: int = 1
    """How many calls it took; those that failed are in the ledger."""
    miss_reason: str = ""
    """Why the provider did not find in its cache what it could have."""
    detail: str = ""
    """Where it refused: the category that it names."""


class ToolRan(Result, frozen=True, kw_only=True):
    """What a tool said. `tree` stands for the workspace as it is after it: the same text, the same files."""

    output: str
    is_error: bool = False
    tree: str = ""


class BudgetRaised(Result, frozen=True, kw_only=True):
    """It is in the ledger."""


ThinkingEffects = AskModel | RunTool | RaiseBudget
ThinkingResults = ModelAnswered | ToolRan | BudgetRaised
