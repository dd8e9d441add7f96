"""Errors of the supervisors, by what to do.

SupervisorError
└── StartError   the world's: the machine could not start a process; counts as a failed start
"""


class SupervisorError(Exception):
    """Base of everything that `supervisors` raises."""


class StartError(SupervisorError):
    """`who` could not be started."""

    def __init__(self, who: str, reason: str) -> None:
        self.who = who
        self.reason = reason
        super().__init__(f"{who} could not be started: {reason}")
