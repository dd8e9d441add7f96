"""Exit codes of an actor's process: what its supervisor learns of how it ended."""

from enum import IntEnum


class ActorExit(IntEnum):
    """How an actor's process came to its end."""

    DONE = 0  # its session came to DONE
    CRASHED = 1  # a bug of ours: the traceback is in the log, the session goes on in the next process
    CONFIGURATION = 2  # command line or settings are wrong: starting it again would not help
    UNREACHABLE = 3  # the broker could not be reached, or has no room
    ERROR = 4  # its session came to ERROR
    FENCED = 5  # another process has its name or its session
    LEFT = 6  # told by a control signal to stop or restart; its sessions go on in the next process
    INTERRUPTED = 130  # Ctrl-C, as LEFT
    TERMINATED = 143  # SIGTERM, as LEFT
