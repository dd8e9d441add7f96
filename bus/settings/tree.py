"""The tree as a person writes it in callboard.toml: who runs, below which supervisors; and the trees by default."""

from collections.abc import Iterator
from typing import Annotated, Literal, Union, get_args

from msgspec import Meta

from bus.settings.section import POOL_SIZE_MAX, PartText, Seconds, Section, TokenText

Edition = Literal["standard", "classic"]
ServiceRuns = Literal["broker", "health"]
ActorRuns = Literal["pm", "architect", "architect-classic", "web"]
PoolRuns = Literal["coder", "coder-classic"]
Runs = Literal[ServiceRuns, ActorRuns, PoolRuns]
SERVICES: tuple[ServiceRuns, ...] = get_args(ServiceRuns)
POOLS: tuple[PoolRuns, ...] = get_args(PoolRuns)

ROOT = "company"
"""The name of the root supervisor."""

Name = Annotated[TokenText, Meta(description="What people call it; no other in the tree has the name.")]
RunsText = Annotated[Runs, Meta(description="What its process does: a machine, or one of the company's own services.")]
Restart = Annotated[
    Literal["permanent", "transient", "temporary"],
    Meta(description="Whether it is started again once it has ended: always, unless it ended well, or never."),
]
Part = Annotated[PartText, Meta(description="Who plays the machine; empty: as `[parts]` says.")]


class Supervising(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every supervisor has."""

    strategy: Annotated[
        Literal["one_for_one", "one_for_all", "rest_for_one"],
        Meta(description="Who is started again with a child: nobody, all others, or those started after it."),
    ] = "one_for_one"
    in_order: Annotated[
        bool, Meta(description="Whether each child is started only when all before it are ready; the root: `true`.")
    ] = False
    failures_max: Annotated[
        int, Meta(ge=0, le=1000, description="How many failures it bears within `failures_seconds`.")
    ] = 5
    failures_seconds: Annotated[Seconds, Meta(description="How long a failure counts.")] = 60.0
    pause_seconds: Annotated[
        Seconds, Meta(description="Pause after a child's second failure in a row, doubled after each further one.")
    ] = 0.5
    pause_seconds_max: Annotated[Seconds, Meta(description="The longest such pause, before jitter.")] = 30.0


class Service(Section, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="service"):
    """The embedded server, or the monitor of the services' health."""

    name: Name
    runs: RunsText
    restart: Restart = "permanent"


class Actor(Section, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="actor"):
    """One actor."""

    name: Name
    runs: RunsText
    id: Annotated[TokenText, Meta(description="The id under which it has its mail and its leases.")] = "main"
    part: Part = ""
    restart: Restart = "permanent"


class Pool(Supervising, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="pool"):
    """A supervisor of so many actors of one machine, called coder-1, coder-2, …; `restart` and `part` are theirs."""

    name: Name
    runs: RunsText
    size: (
        Annotated[
            int,
            Meta(ge=0, le=POOL_SIZE_MAX, description="How many there are; where it is left out `supervisor.coders`."),
        ]
        | None
    ) = None
    part: Part = ""
    restart: Restart = "permanent"


class Group(Supervising, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="group"):
    """A supervisor and whom it watches."""

    name: Name
    restart: Restart = "permanent"
    children: tuple[Union[Service, Actor, Pool, "Group"], ...]


Member = Service | Actor | Pool | Group


class TreeText(Supervising, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The root supervisor and whom it watches."""

    in_order: bool = True
    children: tuple[Member, ...]


Supervisor = TreeText | Group


def default_tree(edition: Edition) -> TreeText:
    """What runs when callboard.toml does not say it."""
    return TreeText(
        children=(
            Service(name="broker", runs="broker"),
            Service(name="health", runs="health"),
            Group(name="agents", children=_AGENTS[edition]),
            Pool(name="coders", runs=_CODERS[edition]),
            Actor(name="web", runs="web", restart="transient"),
        )
    )


def members(supervisor: Supervisor) -> Iterator[Member]:
    """All that is below a supervisor, in order."""
    for member in supervisor.children:
        yield member
        if isinstance(member, Group):
            yield from members(member)


def role_of(runs: Runs) -> str:
    """The role under which a machine has its mail: both editions' coders are coders."""
    return runs.partition("-")[0]


_AGENTS: dict[Edition, tuple[Actor, ...]] = {
    "standard": (Actor(name="pm", runs="pm"), Actor(name="architect", runs="architect")),
    "classic": (Actor(name="architect", runs="architect-classic"),),
}
_CODERS: dict[Edition, PoolRuns] = {"standard": "coder", "classic": "coder-classic"}
