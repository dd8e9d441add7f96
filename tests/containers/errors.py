"""What can go wrong around the container tests.

Exception
├── NoEngineError        there can be no container engine here: say so and leave the tests out
└── EngineFailureError   there is an engine and it does not do its part: fail
"""


class NoEngineError(Exception):
    """This machine has no container engine and none can be started; `reason` is for a person."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class EngineFailureError(Exception):
    """A command to a working engine failed; `reason` is what it said."""

    def __init__(self, command: list[str], reason: str) -> None:
        super().__init__(f"`{' '.join(command)}` failed: {reason}")
        self.command = command
        self.reason = reason
