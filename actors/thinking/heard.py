"""What is heard of the model in one call."""

from typing import NamedTuple

from bus.ledger.amounts import Usage


class Heard(NamedTuple):
    """A whole turn, as the provider sent it; `content` is JSON."""

    message: str
    model: str
    stop_reason: str
    content: str
    usage: Usage
    detail: str = ""
    miss_reason: str = ""
