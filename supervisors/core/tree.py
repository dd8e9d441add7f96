"""The whole tree, pure: each supervisor's decisions carried up and down, until only processes are left to start or end.

A supervisor is a child of its parent like any other: started, it starts its own children, and is ready when all of them
are; over its budget it ends them and itself, which its parent takes for a crash.
"""

from collections.abc import Callable, Mapping

import msgspec

from supervisors.core import watch as one
from supervisors.core.plans import SERVICES, Child, Plan, Supervisor, walk
from supervisors.core.watch import Counters, Known, Watch, Way

replace = msgspec.structs.replace


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisors that are at work, by name; the root's is always there."""

    plan: Supervisor
    watches: dict[str, Watch]
    counters: Mapping[str, Counters] = {}
    """What the predecessors of those that are not at work have counted."""
    gave_up: bool = False
    """Whether the root has given up and everybody has ended: it rests until a person has said what now."""
    begins_anew: bool = False
    """Whether somebody has said so: as soon as everybody has ended it is planted again."""


class StartChild(msgspec.Struct, frozen=True):
    """Start what a child runs."""

    child: Child


class StopChild(msgspec.Struct, frozen=True):
    """Have a child end."""

    name: str


class Wake(msgspec.Struct, frozen=True):
    """Ask again at this time."""

    at: float


class GaveUp(msgspec.Struct, frozen=True):
    """A supervisor was over its budget: its children have ended, and its parent decides; above the root, a person."""

    name: str
    failures: int


class Closed(msgspec.Struct, frozen=True):
    """Nobody runs any more, and nobody will: the company was told to stop, perhaps after its root had given up."""

    gave_up: bool


TreeAct = StartChild | StopChild | Wake | GaveUp | Closed


def plant(plan: Supervisor, counters: Mapping[str, Counters] | None = None) -> Tree:
    """A tree in which nobody runs yet."""
    known = dict(counters or {})
    return Tree(plan=plan, watches={plan.name: one.watch_over(plan, known.pop(plan.name, None))}, counters=known)


def counters_of(tree: Tree) -> dict[str, Counters]:
    """What the next tree has to know, by supervisor."""
    return {**tree.counters, **{name: one.counters_of(watch) for name, watch in tree.watches.items()}}


# What happens.


def became_ready(tree: Tree, name: str, now: float) -> Tree:
    """A child takes events."""
    return _change(tree, name, lambda watch: one.became_ready(watch, name, now))


def ended(tree: Tree, name: str, way: Way, now: float, chance: float = 0.0) -> Tree:
    """A child is no longer there."""
    return _change(tree, name, lambda watch: one.ended(watch, name, way, now, chance))


def restart(tree: Tree, name: str) -> Tree:
    """Somebody wants a child, or a supervisor with all of its children, to begin anew."""
    return _change(tree, name, lambda watch: one.restart(watch, name))


def replan(tree: Tree, plan: Supervisor) -> Tree:
    """Have other children, anywhere in the tree; the supervisors stay the same."""
    plans = {each.name: each for each in walk(plan) if isinstance(each, Supervisor)}
    watches = {name: one.replan(watch, plans[name]) for name, watch in tree.watches.items() if name in plans}
    return replace(tree, plan=plan, watches={**tree.watches, **watches})


def begin_anew(tree: Tree) -> Tree:
    """Somebody wants a company whose root gives up, or has given up, to go on; any other does so anyway."""
    return replace(tree, begins_anew=True) if gives_up(tree) else tree


def stop(tree: Tree) -> Tree:
    """End everybody, in reverse order."""
    return _with(tree, one.stop(tree.watches[tree.plan.name]))


def stop_at_once(tree: Tree) -> Tree:
    """As `stop`, when somebody else ends them all without any order: nobody is started again meanwhile."""
    return replace(tree, watches={name: one.stop(watch) for name, watch in tree.watches.items()})


# What follows.


def reconcile(tree: Tree, now: float, chance: float = 0.0) -> tuple[Tree, tuple[TreeAct, ...]]:
    """What to do now, and the tree once it is done."""
    return _Round(tree, now, chance).finish()


class _Round:
    """Deciding until nobody has anything to add: what one supervisor does can be the next one's business."""

    def __init__(self, tree: Tree, now: float, chance: float) -> None:
        self._tree = tree
        self._now = now
        self._chance = chance
        self._acts: list[TreeAct] = []
        self._wakes: list[float] = []

    def finish(self) -> tuple[Tree, tuple[TreeAct, ...]]:
        before: Tree | None = None
        while self._tree != before:
            before = self._tree
            self._wakes.clear()
            for name in _supervisors(self._tree):
                if name in self._tree.watches:
                    self._decide(name)
            self._tree = _ready_supervisors(self._tree, self._now)
        return self._tree, (*self._acts, *(Wake(at) for at in sorted(self._wakes)[:1]))

    def _decide(self, name: str) -> None:
        watch, acts = one.reconcile(self._tree.watches[name], self._now)
        self._tree = _with(self._tree, watch)
        for act in acts:
            match act:
                case one.Start(child):
                    self._start(_plan(self._tree, name, child))
                case one.Stop(child) if child in self._tree.watches:
                    self._tree = _with(self._tree, one.stop(self._tree.watches[child]))
                case one.Stop(child):
                    self._acts.append(StopChild(child))
                case one.Wake(at):
                    self._wakes.append(at)
                case one.Closed(gave_up):
                    self._close(name, gave_up=gave_up)

    def _start(self, plan: Plan) -> None:
        if isinstance(plan, Child):
            self._acts.append(StartChild(plan))
            return
        counters = {name: each for name, each in self._tree.counters.items() if name != plan.name}
        watch = one.watch_over(plan, self._tree.counters.get(plan.name))
        self._tree = _with(replace(self._tree, counters=counters), watch)

    def _close(self, name: str, *, gave_up: bool) -> None:
        """A supervisor is done, and its parent hears so."""
        if name == self._tree.plan.name:
            self._close_root(gave_up=gave_up)
            return
        if gave_up:
            self._acts.append(_gave_up(self._tree, name))
        counters = {**self._tree.counters, name: one.begun_anew(one.counters_of(self._tree.watches[name]))}
        watches = {other: watch for other, watch in self._tree.watches.items() if other != name}
        way: Way = "crash" if gave_up else "asked"
        tree = replace(self._tree, watches=watches, counters=counters)
        self._tree = ended(tree, name, way, self._now, self._chance)

    def _close_root(self, *, gave_up: bool) -> None:
        """A root that gave up rests, and what comes next is for a person to say."""
        if not gave_up:
            closed = Closed(self._tree.gave_up)
            self._acts += [] if closed in self._acts else [closed]
            return
        if not self._tree.gave_up:
            self._acts.append(_gave_up(self._tree, self._tree.plan.name))
            self._tree = replace(self._tree, gave_up=True)
        if self._tree.begins_anew:
            counters = {name: one.begun_anew(each) for name, each in counters_of(self._tree).items()}
            self._tree = plant(self._tree.plan, counters)


def _gave_up(tree: Tree, name: str) -> GaveUp:
    return GaveUp(name, len(tree.watches[name].failures))


def _ready_supervisors(tree: Tree, now: float) -> Tree:
    for name in _supervisors(tree)[1:]:
        watch = tree.watches.get(name)
        if watch and not watch.closing and all(_is_there(known) for known in watch.children.values()):
            tree = became_ready(tree, name, now)
    return tree


def _is_there(known: Known) -> bool:
    return known.phase in ("ready", "over") or not known.wanted


# Finding one's way.


def gives_up(tree: Tree) -> bool:
    """Whether the root is over its budget: everybody ends, or has ended already."""
    return tree.watches[tree.plan.name].closing == "give_up"


def nobody_can_start(tree: Tree) -> bool:
    """Whether each actor there is ended for its configuration, and is not started again."""
    actors = [
        known(tree, each.name) for each in walk(tree.plan) if isinstance(each, Child) and each.runs not in SERVICES
    ]
    return bool(actors) and all(each and (each.phase, each.last_way) == ("over", "configuration") for each in actors)


def parent_of(tree: Tree, name: str) -> Watch | None:
    """The supervisor at work that has a child of that name."""
    return next((watch for watch in tree.watches.values() if name in watch.children), None)


def known(tree: Tree, name: str) -> Known | None:
    """What is known of a child; None if nobody at work has it."""
    watch = parent_of(tree, name)
    return None if watch is None else watch.children[name]


def _change(tree: Tree, name: str, change: Callable[[Watch], Watch]) -> Tree:
    watch = parent_of(tree, name)
    return tree if watch is None else _with(tree, change(watch))


def _supervisors(tree: Tree) -> list[str]:
    """All that are or could be at work, each before those below it."""
    planned = [each.name for each in walk(tree.plan) if isinstance(each, Supervisor)]
    return [*planned, *(name for name in tree.watches if name not in planned)]


def _plan(tree: Tree, supervisor: str, name: str) -> Plan:
    return next(child for child in tree.watches[supervisor].plan.children if child.name == name)


def _with(tree: Tree, watch: Watch) -> Tree:
    return replace(tree, watches={**tree.watches, watch.plan.name: watch})
