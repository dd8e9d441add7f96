"""Exit codes of all commands."""

from enum import IntEnum


class Exit(IntEnum):
    """What a command's exit code says."""

    OK = 0
    FAILED = 1  # it did not work, or what was asked for is not there or not as it should be
    USAGE = 2  # the command line or the settings are wrong; nothing was done
    UNREACHABLE = 3  # the broker cannot be reached or cannot run; nothing was done
    SUSPENDED = 4  # somebody is in SUSPEND, or an API is not healthy; it goes on when all are
    NEEDS_PERSON = 5  # something waits for a person's answer
    BUDGET = 6  # a ceiling of the budget is reached
    INTERRUPTED = 130  # Ctrl-C; what had been acknowledged stays
    TERMINATED = 143  # told to end, or the terminal was closed; what had been acknowledged stays
