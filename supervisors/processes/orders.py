"""What a supervisor and its zygote say to each other, one message a packet."""

from typing import Annotated

import msgspec


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Start one actor. `part` is `MODULE:NAME`, empty for the machine's own agent; `log` takes what it prints."""

    number: int
    machine: str
    actor: str
    log: str
    folder: str
    part: str = ""
    project: str | None = None
    url: str | None = None


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What a process has used up."""

    user_seconds: float = 0.0
    system_seconds: float = 0.0
    memory_bytes_max: int = 0


class Loaded(msgspec.Struct, frozen=True, kw_only=True, tag="loaded"):
    """The zygote has imported everything and takes orders."""

    pid: int


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """An order was followed; the packet carries a pidfd, by which the process can be meant and no other."""

    number: int
    pid: int


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """An order could not be followed: the machine has no room for another process."""

    number: int
    reason: str


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """A process has ended and is gone; a negative code is the signal that ended it."""

    number: int
    code: Annotated[int, msgspec.Meta(ge=-64, le=255)]
    resources: Resources = Resources()


Report = Loaded | Started | Refused | Ended

PACKET_BYTES_MAX = 65536
