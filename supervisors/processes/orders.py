"""What a supervisor and its zygote say to each other, one message a packet."""

import resource
from typing import Annotated

import msgspec

KIB = 1024


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Start one actor. `part` is `MODULE:NAME`, empty for the machine's own agent; `log` takes what it prints.

    `broker` is the folder of the embedded server, where that is what `url` leads to: the keys of all roles are there.
    The packet carries the process's end of its tether.
    """

    machine: str
    actor: str
    log: str
    folder: str
    project: str
    url: str
    number: int = 0
    part: str = ""
    broker: str = ""


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What a process has used up."""

    user_seconds: float = 0.0
    system_seconds: float = 0.0
    memory_bytes_max: int = 0


def resources_of(used: resource.struct_rusage) -> Resources:
    """What the machine says that a process has used up."""
    return Resources(user_seconds=used.ru_utime, system_seconds=used.ru_stime, memory_bytes_max=used.ru_maxrss * KIB)


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
    """A process has ended and is gone; a negative code is the signal that ended it.

    So is what it has left behind, but for what is `left`, which could not be killed.
    """

    number: int
    code: Annotated[int, msgspec.Meta(ge=-64, le=255)]
    resources: Resources = Resources()
    left: tuple[int, ...] = ()


class Unfit(msgspec.Struct, frozen=True, kw_only=True, tag="unfit"):
    """The zygote must not fork: what it has imported would not survive that."""

    reason: str


Report = Loaded | Unfit | Started | Refused | Ended

PACKET_BYTES_MAX = 65536
