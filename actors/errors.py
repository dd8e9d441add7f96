"""Errors of the actors, by what to do.

ActorError
├── EffectError             an executor's: the effect failed for good; `decide` hears of it
├── EffectCancelledError    an executor's: somebody gave the effect up before it was done
├── ServiceUnavailableError an executor's: a service is out of reach and retries are used up; the session suspends
├── UnreadableSessionError  a record that this code cannot read; a person is asked, nothing is lost
├── RecordTooLargeError     ours: an event, a session or its effects outgrew a record; large things go elsewhere
├── LostSessionError        somebody else has the session now: stop, run nothing more
├── NoPartError             the person's: nobody plays that machine, or not there; the message says what to do
└── NoExecutorError         ours: an actor names an effect that nobody performs
"""


class ActorError(Exception):
    """Base of everything that `actors` raises."""


class EffectError(ActorError):
    """The effect failed and would fail again; `evidence` is what is known of it."""

    def __init__(self, reason: str, evidence: str = "") -> None:
        self.reason = reason
        self.evidence = evidence
        super().__init__(reason)


class EffectCancelledError(ActorError):
    """The effect was given up, by a person or a limit, before it was done."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ServiceUnavailableError(ActorError):
    """`service` cannot be reached at the moment and retrying has not helped."""

    def __init__(self, service: str, reason: str) -> None:
        self.service = service
        self.reason = reason
        super().__init__(f"{service}: {reason}")


class UnreadableSessionError(ActorError):
    """Record `sequence` of a session cannot be read by this code."""

    def __init__(self, session: str, sequence: int, reason: str) -> None:
        self.session = session
        self.sequence = sequence
        self.reason = reason
        super().__init__(f"record {sequence} of session {session} cannot be read: {reason}")


class RecordTooLargeError(ActorError):
    """The `part` of a record would have `size` bytes, and its share is `limit`."""

    def __init__(self, part: str, size: int, limit: int) -> None:
        self.part = part
        self.size = size
        self.limit = limit
        super().__init__(f"the {part} of a record would have {size} bytes, over {limit}: use the object store")


class LostSessionError(ActorError):
    """Another process has the session."""

    def __init__(self, session: str, reason: str) -> None:
        self.session = session
        self.reason = reason
        super().__init__(f"session {session} is somebody else's now: {reason}")


class NoExecutorError(ActorError):
    """Nobody performs effects of this kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(f"no executor is registered for {kind}")


class NoPartError(ActorError):
    """Nobody plays the machine that was asked for."""
