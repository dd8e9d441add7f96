"""Errors of the rehearsal server, by whose they are.

RehearsalError
├── RefusedError   the client's: what the API would refuse; the answer is `status` with `kind` and the message
├── NoCueError     the parts': nobody has an answer; said to the client and, with the conversation, to the person
├── BadPartError   the parts': a file that cannot be read, or an answer that no model could give
├── BadFaultsError the person's: a file of faults that cannot be used
└── NoPlaceError   the person's: nothing can be listened on there
"""


class RehearsalError(Exception):
    """Base of everything that the rehearsal server raises."""


class RefusedError(RehearsalError):
    """A request that the API refuses, in its words; `code` is its `details.error_code`."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "invalid_request_error", code: str = "") -> None:
        self.message = message
        self.status = status
        self.kind = kind
        self.code = code
        super().__init__(message)


class NoCueError(RehearsalError):
    """No part has an answer for a conversation; `conversation` is what it was, for a person to read."""

    def __init__(self, whose: str, conversation: str) -> None:
        self.conversation = conversation
        super().__init__(f"no cue for {whose}")


class BadPartError(RehearsalError):
    """A part is wrong; the message says which and how."""


class BadFaultsError(RehearsalError):
    """A file of faults is wrong; the message says how."""


class NoPlaceError(RehearsalError):
    """The address is taken, or is none of this machine's."""
