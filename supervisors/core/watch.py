"""One supervisor's decisions, pure: what it knows of its children, what has happened, and what to do next.

What happens changes what is known (`ended`, `became_ready`, …); `reconcile` then says what to do about it. It looks at
how things are, not at how they came to be so: asked twice it has nothing to add, and a supervisor that starts anew
with the counters of its predecessor goes on as that would have.
"""

from typing import Literal

import msgspec

from supervisors.core.plans import Plan, Supervisor

Phase = Literal["down", "starting", "ready", "stopping", "over"]
"""`over`: it will not be started again by itself."""

Way = Literal["normal", "error", "crash", "hung", "never_ready", "cut_off", "configuration", "asked"]
"""How a child ended. `error`: its session came to ERROR; `cut_off`: the broker was away, or gave its place to another;
`asked`: it was told to; a supervisor that gave up crashed."""

COUNTED: frozenset[Way] = frozenset({"crash", "hung", "never_ready"})
"""What uses up the budget where it leads to another start; neither the end of a story nor an ERROR is a failure."""

PAUSED_AFTER: frozenset[Way] = COUNTED | {"cut_off"}
"""After these in a row a child is left alone for longer and longer."""

START_EVERY_SECONDS = 0.25
"""So often at most a child is started that ends by itself without having failed, however fast it does so."""

ALIVE: frozenset[Phase] = frozenset({"starting", "ready", "stopping"})

replace = msgspec.structs.replace


class Known(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of one child."""

    phase: Phase = "down"
    wanted: bool = True
    recycle: bool = False
    """It has to end first, and is then started again if it is wanted."""
    leaving: bool = False
    """It is no longer in the plan, and forgotten once it has ended."""
    not_before: float = 0.0
    streak: int = 0
    """Failures since it was last well for as long as a budget lasts."""
    counted: int = 0
    """Those of them that use up the budget: one that fails slowly would never have enough of them in time."""
    starts: int = 0
    started: float = 0.0
    """When it was started last."""
    failures: int = 0
    ready_since: float = 0.0
    was_ready: bool = False
    last_way: Way | None = None


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """A supervisor: its plan, its children by name, and the times of the failures that still count."""

    plan: Supervisor
    children: dict[str, Known]
    failures: tuple[float, ...] = ()
    closing: Literal["", "stop", "give_up"] = ""


class Count(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is counted of a child, and how long it is left alone."""

    starts: int = 0
    failures: int = 0
    streak: int = 0
    counted: int = 0
    not_before: float = 0.0


class Counters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a supervisor hands on to the next one of its name."""

    failures: tuple[float, ...] = ()
    children: dict[str, Count] = {}


class Start(msgspec.Struct, frozen=True):
    """Start a child."""

    name: str


class Stop(msgspec.Struct, frozen=True):
    """Tell a child to end."""

    name: str


class Wake(msgspec.Struct, frozen=True):
    """Ask again at this time."""

    at: float


class Closed(msgspec.Struct, frozen=True):
    """Nobody runs any more: it was told to stop, or has given up."""

    gave_up: bool


Act = Start | Stop | Wake | Closed


def watch_over(plan: Supervisor, counters: Counters | None = None) -> Watch:
    """A supervisor that has started nobody yet, and goes on counting where its predecessor has left off."""
    known = counters or Counters()
    counts = {child.name: known.children.get(child.name, Count()) for child in plan.children}
    children = {name: Known(**msgspec.structs.asdict(each)) for name, each in counts.items()}
    return Watch(plan=plan, children=children, failures=known.failures)


def counters_of(watch: Watch) -> Counters:
    """What the next supervisor of this name has to know."""
    children = {name: msgspec.convert(known, Count, from_attributes=True) for name, known in watch.children.items()}
    return Counters(failures=watch.failures, children=children)


def begun_anew(counters: Counters) -> Counters:
    """What is left of it when the supervisor itself begins anew: its budget is whole, and nobody is left alone."""
    children = {name: Count(starts=count.starts, failures=count.failures) for name, count in counters.children.items()}
    return Counters(children=children)


# What happens.


def became_ready(watch: Watch, name: str, now: float) -> Watch:
    """A child takes events."""
    known = watch.children[name]
    return (
        watch
        if known.phase != "starting"
        else _with(watch, name, replace(known, phase="ready", ready_since=now, was_ready=True))
    )


def ended(watch: Watch, name: str, way: Way, now: float, chance: float = 0.0) -> Watch:
    """A child is no longer there."""
    known = watch.children[name]
    if known.leaving:
        return _without(watch, name)
    is_told = known.phase == "stopping" or known.recycle
    soonest = known.started + START_EVERY_SECONDS
    if is_told or way == "asked":
        phase: Phase = "down" if known.wanted else "over"
        not_before = 0.0 if is_told else soonest
        return _with(watch, name, replace(known, phase=phase, recycle=False, not_before=not_before, last_way="asked"))
    is_back = _is_started_again(_plan(watch, name), way)
    was_well = known.phase == "ready" and now - known.ready_since >= watch.plan.budget.seconds
    counted = 0 if was_well or way not in PAUSED_AFTER else known.counted
    if is_back and way in COUNTED:
        counted += 1
        watch = _count(watch, counted, now)
    has_failed = way in PAUSED_AFTER
    streak = (1 if was_well else known.streak + 1) if has_failed else 0
    pause = watch.plan.backoff.seconds(streak, chance)
    phase = "down" if is_back else "over"
    known = replace(
        known,
        phase=phase,
        wanted=is_back,
        recycle=False,
        not_before=now + pause if has_failed else soonest,
        streak=streak,
        counted=counted,
        failures=known.failures + has_failed,
        last_way=way,
    )
    watch = _with(watch, name, known)
    return _with_others(watch, name) if is_back else watch


def restart(watch: Watch, name: str) -> Watch:
    """Somebody wants a child to begin anew, also one that was over; that is no failure, and no other's business."""
    known = watch.children[name]
    is_alive = known.phase in ALIVE
    phase = known.phase if is_alive else "down"
    return _with(
        watch, name, replace(known, phase=phase, wanted=True, recycle=is_alive, not_before=0.0, streak=0, counted=0)
    )


def replan(watch: Watch, plan: Supervisor) -> Watch:
    """Have other children: new ones are started, those that are gone from the plan end and are forgotten."""
    planned = {child.name: watch.children.get(child.name, Known()) for child in plan.children}
    kept = {
        name: replace(known, leaving=False, wanted=known.wanted or known.leaving) for name, known in planned.items()
    }
    leaving = {
        name: replace(known, leaving=True, wanted=False)
        for name, known in watch.children.items()
        if name not in kept and known.phase in ALIVE
    }
    gone = tuple(child for child in watch.plan.children if child.name in leaving)
    return replace(watch, plan=replace(plan, children=(*plan.children, *gone)), children={**kept, **leaving})


def stop(watch: Watch) -> Watch:
    """End everybody; a person who says so overrules a supervisor that is giving up."""
    return replace(watch, closing="stop")


# What follows.


def reconcile(watch: Watch, now: float) -> tuple[Watch, tuple[Act, ...]]:
    """What to do now, and the supervisor once it is done."""
    watch, stops = _stops(watch)
    if watch.closing:
        is_over = not any(known.phase in ALIVE for known in watch.children.values())
        return watch, (*stops, Closed(watch.closing == "give_up")) if is_over else stops
    watch, starts = _starts(watch, now)
    return watch, (*stops, *starts, *_wakes(watch, now))


def _stops(watch: Watch) -> tuple[Watch, tuple[Act, ...]]:
    """In reverse order; where the order matters, one after the other."""
    acts: list[Act] = []
    is_ordered = _hangs_together(watch) or (watch.plan.in_order and watch.closing)
    for name in reversed(_names(watch)):
        known = watch.children[name]
        if known.phase not in ALIVE:
            continue
        if known.phase != "stopping" and (watch.closing or known.recycle or not known.wanted):
            watch = _with(watch, name, replace(known, phase="stopping"))
            acts.append(Stop(name))
        if is_ordered and watch.children[name].phase == "stopping":
            break
    return watch, tuple(acts)


def _starts(watch: Watch, now: float) -> tuple[Watch, tuple[Act, ...]]:
    """In order; where the order matters, each when all before it are ready."""
    acts: list[Act] = []
    children = watch.children.values()
    if _hangs_together(watch) and any(known.recycle or known.phase == "stopping" for known in children):
        return watch, ()
    for name in _names(watch):
        known = watch.children[name]
        if known.phase == "down" and known.wanted and _is_due(watch, known, now):
            known = replace(known, phase="starting", starts=known.starts + 1, started=now)
            watch = _with(watch, name, known)
            acts.append(Start(name))
        if known.wanted and known.phase != "ready" and _is_waited_for(watch, known):
            break
    return watch, tuple(acts)


def _wakes(watch: Watch, now: float) -> tuple[Act, ...]:
    times = [
        known.not_before
        for known in watch.children.values()
        if known.phase == "down" and known.wanted and not _is_due(watch, known, now)
    ]
    return (Wake(min(times)),) if times else ()


def _is_due(watch: Watch, known: Known, now: float) -> bool:
    """Whether a child was left alone for long enough; longer than ever is only by a clock that was set back."""
    backoff = watch.plan.backoff
    longest = max(backoff.seconds_max * (1.0 + backoff.jitter), START_EVERY_SECONDS)
    return not 0 < known.not_before - now <= longest


# How children hang together.


def _hangs_together(watch: Watch) -> bool:
    """Whether a child that is started again concerns others, so that they wait for each other every time."""
    return watch.plan.strategy != "one_for_one"


def _is_waited_for(watch: Watch, known: Known) -> bool:
    """Whether those after a child wait until it is ready; where it concerns no other, only the first time."""
    return _hangs_together(watch) or (watch.plan.in_order and not known.was_ready)


def _is_started_again(plan: Plan, way: Way) -> bool:
    if way == "configuration" or plan.restart == "temporary":
        return False
    return plan.restart == "permanent" or way != "normal"


def _with_others(watch: Watch, name: str) -> Watch:
    """Those who, by the strategy, are started again together with a child; temporary ones only end."""
    names = _names(watch)
    place = names.index(name)
    others = {"one_for_one": [], "one_for_all": names[:place] + names[place + 1 :], "rest_for_one": names[place + 1 :]}
    for other in others[watch.plan.strategy]:
        known = watch.children[other]
        if known.phase in ALIVE:
            is_wanted = known.wanted and _plan(watch, other).restart != "temporary"
            watch = _with(watch, other, replace(known, recycle=True, wanted=is_wanted))
    return watch


def _count(watch: Watch, in_row: int, now: float) -> Watch:
    """One more failure: too many within the time of the budget, or too many of one child in a row."""
    budget = watch.plan.budget
    # What lies ahead is of a clock that was set back since.
    failures = (*(at for at in watch.failures if 0 <= now - at < budget.seconds), now)
    is_over = max(len(failures), in_row) > budget.failures_max
    return replace(watch, failures=failures, closing="give_up" if is_over and not watch.closing else watch.closing)


def _names(watch: Watch) -> list[str]:
    return [child.name for child in watch.plan.children]


def _plan(watch: Watch, name: str) -> Plan:
    return next(child for child in watch.plan.children if child.name == name)


def _with(watch: Watch, name: str, known: Known) -> Watch:
    return replace(watch, children={**watch.children, name: known})


def _without(watch: Watch, name: str) -> Watch:
    remaining = tuple(child for child in watch.plan.children if child.name != name)
    children = {other: known for other, known in watch.children.items() if other != name}
    return replace(watch, plan=replace(watch.plan, children=remaining), children=children)
