"""Errors of the bus, by whose fault they are and what the caller should do.

BusError
├── BusUnreachableError        the world's: no connection could be made; say so, or try again later
├── BusClosedError             the world's: the connection is closed for good; end the process
├── NotAcknowledgedError       the world's: stored or not, nobody knows; repeat with the same id
│   └── NoResponderError       the world's: nobody listens there now; repeat, it may be recovering
├── ChannelClosedError         the world's: the stream or consumer was deleted; a state of its own for an actor
├── StorageFullError           the world's: the broker has no room; free some, then go on
├── BrokerRefusedError         ours or the person's: the broker understood and refused, with its code
│   ├── WrongLastSequenceError the fence's: somebody else wrote first
│   └── PermissionDeniedError  this identity may not use that subject
├── MessageTooLargeError       the caller's: use the object store
├── SlowConsumerError          ours: messages arrived faster than they were taken, and some were dropped
├── FencedError                another incarnation owns the session: stop at once, run nothing more
├── HistoryLostError           the world's: the broker forgot an acknowledged record; a person must look
├── HoldOpenError             ours: this process has not settled an earlier call of the same effect
├── LeaseLostError             somebody else holds the lease, or nobody: stop what it covered
├── UnknownAskError            the person's: nobody asks that, or no longer
├── AskClosedError             the person's: it is answered already
├── ObjectMissingError         the caller's or the world's: no object under that key
├── ObjectCorruptError         the world's: an object's bytes do not match its key
├── SettingsError              the person's: see bus.settings.errors; stop with every problem and what to do
└── ServerError                the embedded server cannot run
    ├── ServerBinaryError      no nats-server, or one that is too old
    ├── PortInUseError         somebody else listens there
    ├── PortLostError          as before, and clients wait for the server there: try again later
    ├── ForeignFolderError     the folder belongs to another project's server
    ├── DiskFullError          no room for the server's files
    └── ServerStartError       it did not come up; its last words are in the message
"""


class BusError(Exception):
    """Base of everything that `bus` raises."""


class BusUnreachableError(BusError):
    """No connection to `url` could be made; `advice` says what a person can do."""

    def __init__(self, url: str, reason: str, advice: str = "") -> None:
        self.url = url
        self.reason = reason
        self.advice = advice
        super().__init__(f"cannot reach NATS at {url}: {reason}{'; ' + advice if advice else ''}")


class BusClosedError(BusError):
    """The connection is closed and will not come back."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(f"the connection to NATS is closed{': ' + reason if reason else ''}")


class NotAcknowledgedError(BusError):
    """The broker did not confirm what was sent to `subject`; it may be stored all the same."""

    def __init__(self, subject: str, reason: str) -> None:
        self.subject = subject
        self.reason = reason
        super().__init__(f"{subject}: not acknowledged: {reason}")


class NoResponderError(NotAcknowledgedError):
    """Nobody listens on `subject` now: it is not there, or still recovering."""

    def __init__(self, subject: str) -> None:
        super().__init__(subject, "nobody listens there")


class ChannelClosedError(BusError):
    """The stream or consumer behind `channel` does not exist (any more)."""

    def __init__(self, channel: str, reason: str) -> None:
        self.channel = channel
        self.reason = reason
        super().__init__(f"{channel} is gone: {reason}")


class StorageFullError(BusError):
    """The broker has no room left for `subject`."""

    def __init__(self, subject: str, reason: str) -> None:
        self.subject = subject
        self.reason = reason
        super().__init__(f"{subject}: the broker's storage is full ({reason}): free disk space or raise its limit")


class BrokerRefusedError(BusError):
    """The broker refused a call on `subject` with its own `code` and `reason`."""

    def __init__(self, subject: str, code: int, reason: str) -> None:
        self.subject = subject
        self.code = code
        self.reason = reason
        super().__init__(f"{subject}: refused by the broker: {reason} ({code})")


class WrongLastSequenceError(BrokerRefusedError):
    """The subject's last message is not the one that the writer expected; `actual` is its sequence if known."""

    def __init__(self, subject: str, code: int, reason: str, actual: int | None) -> None:
        self.actual = actual
        super().__init__(subject, code, reason)


class PermissionDeniedError(BrokerRefusedError):
    """This identity may not publish or subscribe to `subject`."""

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(subject, 403, reason)


class MessageTooLargeError(BusError):
    """`size` bytes are more than the `limit` of a message on `subject`."""

    def __init__(self, subject: str, size: int, limit: int) -> None:
        self.subject = subject
        self.size = size
        self.limit = limit
        super().__init__(f"{subject}: {size} bytes are over the limit of {limit}: put it into the object store")


class SlowConsumerError(BusError):
    """Messages on `subject` came faster than they were taken; the client dropped some."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        super().__init__(f"{subject}: slow consumer, messages were dropped by the client")


class FencedError(BusError):
    """Record `append_id` was refused: `owner` has written to `subject` since, or something else under the same id."""

    def __init__(self, subject: str, append_id: str, owner: str) -> None:
        self.subject = subject
        self.append_id = append_id
        self.owner = owner
        last = (
            f"the last record is {owner or 'unknown'}"
            if owner != append_id
            else "something else was stored under that id"
        )
        super().__init__(f"{subject}: fenced: {append_id} came too late, {last}")


class HistoryLostError(BusError):
    """`subject` ends before sequence `expected`, which the broker had acknowledged."""

    def __init__(self, subject: str, expected: int, actual: int) -> None:
        self.subject = subject
        self.expected = expected
        self.actual = actual
        super().__init__(f"{subject}: the broker acknowledged sequence {expected}, but its last is {actual}")


class HoldOpenError(BusError):
    """`call` was to be reserved, and `open_call` of the same effect and process is not settled yet."""

    def __init__(self, call: str, open_call: str) -> None:
        self.call = call
        self.open_call = open_call
        super().__init__(f"{call} cannot be reserved before {open_call}, of the same process, is settled")


class LeaseLostError(BusError):
    """`key` is not held by `owner` any more."""

    def __init__(self, key: str, owner: str) -> None:
        self.key = key
        self.owner = owner
        super().__init__(f"lease {key} is no longer held by {owner}")


class UnknownAskError(BusError):
    """There is no ask `ask`, or its asker has withdrawn it."""

    def __init__(self, ask: str) -> None:
        self.ask = ask
        super().__init__(f"there is no ask {ask}, or it was withdrawn: `bus asks` lists the open ones")


class AskClosedError(BusError):
    """`ask` was answered with `answer`, and that stands."""

    def __init__(self, ask: str, answer: str) -> None:
        self.ask = ask
        self.answer = answer
        super().__init__(f"ask {ask} is closed; its answer was: {answer}")


class ObjectMissingError(BusError):
    """There is no object `key`."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"there is no object {key}")


class ObjectCorruptError(BusError):
    """The bytes stored under `key` are not those that were put there."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"object {key} does not match its digest")


class ServerError(BusError):
    """The embedded NATS server cannot run."""


class ServerBinaryError(ServerError):
    """`path` is no usable nats-server."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class PortInUseError(ServerError):
    """Somebody else listens on `port`."""

    def __init__(self, port: int) -> None:
        self.port = port
        super().__init__(
            f"port {port} is in use by another program: stop that one, or set server.port to another (0: any free one)"
        )


class PortLostError(ServerError):
    """The server is not to be had on `port`, where its clients wait for it."""

    def __init__(self, port: int) -> None:
        self.port = port
        super().__init__(f"port {port}, where the broker is waited for, is in use: stop whoever uses it")


class ForeignFolderError(ServerError):
    """`folder` has the server of project `owner`, not that of `project`."""

    def __init__(self, folder: str, owner: str, project: str) -> None:
        self.folder = folder
        self.owner = owner
        self.project = project
        super().__init__(
            f"{folder} belongs to project {owner}: use --project {owner}, or set another state_folder for {project}"
        )


class DiskFullError(ServerError):
    """There is no room in `folder`."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        super().__init__(f"no space left in {folder}: free some, or set state_folder to a place with room")


class ServerStartError(ServerError):
    """The server did not come up; `log` is the end of what it wrote."""

    def __init__(self, reason: str, log: str) -> None:
        self.reason = reason
        self.log = log
        super().__init__(f"the embedded NATS server did not start: {reason}{chr(10) + log if log else ''}")
