"""One supervisor's decisions: OTP's own matrix, order, budget, backoff, and what a property can say of all of them."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors.core.plans import Backoff, Budget, Child, Restart, Strategy, Supervisor
from supervisors.core.watch import (
    ALIVE,
    COUNTED,
    START_EVERY_SECONDS,
    Act,
    Closed,
    Counters,
    Start,
    Stop,
    Wake,
    Way,
    became_ready,
    counters_of,
    ended,
    reconcile,
    replan,
    restart,
    stop,
    watch_over,
)

NAMES = ("a", "b", "c")
WAYS: tuple[Way, ...] = get_args(Way)
RESTARTS: tuple[Restart, ...] = get_args(Restart)
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
LIVED_SECONDS = 0.5


def plan(strategy: Strategy = "one_for_one", restarts: Restart = "permanent", **more: Any) -> Supervisor:
    children = tuple(Child(name=name, restart=restarts) for name in NAMES)
    return Supervisor(name="top", children=children, strategy=strategy, **more)


class Play:
    """A supervisor whose children do at once what it says, unless a test has them do otherwise."""

    def __init__(
        self, supervisor: Supervisor, *, is_willing: bool = True, now: float = 0.0, counters: Counters | None = None
    ) -> None:
        self.watch = watch_over(supervisor, counters)
        self.now = now
        self.is_willing = is_willing
        self.log: list[str] = []
        self.go_on()

    def go_on(self) -> None:
        """Do all that follows."""
        while True:
            self.watch, acts = reconcile(self.watch, self.now)
            for act in acts:
                self._do(act)
            if not self.is_willing or not any(isinstance(act, Start | Stop) for act in acts):
                return

    def _do(self, act: Act) -> None:
        match act:
            case Start(name):
                self.log.append(f"+{name}")
                if self.is_willing:
                    self.watch = became_ready(self.watch, name, self.now)
            case Stop(name):
                self.log.append(f"-{name}")
                if self.is_willing:
                    self.watch = ended(self.watch, name, "asked", self.now)
            case Closed(gave_up):
                self.log.append("gave up" if gave_up else "stopped")
            case Wake(at):
                self.log.append(f"wake {at:g}")

    def end(self, name: str, way: Way) -> list[str]:
        """A child ends by itself, when it has lived for a while; what is done about it."""
        self.now += LIVED_SECONDS
        self.log.clear()
        self.watch = ended(self.watch, name, way, self.now)
        self.go_on()
        return self.log

    def phases(self) -> dict[str, str]:
        return {name: known.phase for name, known in self.watch.children.items()}


def expected(strategy: Strategy, restarts: Restart, way: Way) -> list[str]:
    """By OTP's rules, for the second of three children; whoever was told to end is simply started again."""
    if way == "asked":
        return ["+b"]
    is_back = way != "configuration" and (restarts == "permanent" or (restarts == "transient" and way != "normal"))
    if not is_back:
        return []
    return {
        "one_for_one": ["+b"],
        "one_for_all": ["-c", "-a", "+a", "+b", "+c"],
        "rest_for_one": ["-c", "+b", "+c"],
    }[strategy]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("restarts", RESTARTS)
@pytest.mark.parametrize("way", WAYS)
def test_who_is_started_again(strategy: Strategy, restarts: Restart, way: Way) -> None:
    play = Play(plan(strategy, restarts))

    assert play.end("b", way) == expected(strategy, restarts, way)


def test_children_are_started_in_order_and_stopped_in_reverse() -> None:
    play = Play(plan("rest_for_one"))
    assert play.log == ["+a", "+b", "+c"]

    play.log.clear()
    play.watch = stop(play.watch)
    play.go_on()

    assert play.log == ["-c", "-b", "-a", "stopped"]


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
def test_where_the_order_matters_each_waits_for_the_one_before(strategy: Strategy) -> None:
    play = Play(plan(strategy), is_willing=False)
    assert play.log == ["+a"]
    play.watch = became_ready(play.watch, "a", 0.0)
    play.go_on()
    assert play.log == ["+a", "+b"]

    play.log.clear()
    play.watch = stop(play.watch)
    play.go_on()
    assert play.log == ["-b"]
    play.watch = ended(play.watch, "b", "asked", 0.0)
    play.go_on()
    assert play.log == ["-b", "-a"]


def test_where_it_does_not_nobody_waits_for_anybody() -> None:
    play = Play(plan("one_for_one"), is_willing=False)
    assert play.log == ["+a", "+b", "+c"]

    play.watch = ended(play.watch, "b", "crash", 0.0)
    play.watch = stop(play.watch)
    play.go_on()

    assert play.log[3:] == ["-c", "-a"]


def test_in_order_each_waits_for_the_one_before_the_first_time_and_when_all_are_stopped() -> None:
    play = Play(plan("one_for_one", in_order=True), is_willing=False)
    assert play.log == ["+a"]
    for name in NAMES:
        play.watch = became_ready(play.watch, name, 0.0)
        play.go_on()
    assert play.log == ["+a", "+b", "+c"]

    play.log.clear()
    for name in ("a", "c"):
        play.watch = ended(play.watch, name, "crash", 0.0)
        play.go_on()
    assert play.log == ["+a", "+c"]

    play.log.clear()
    play.watch = stop(play.watch)
    play.go_on()
    assert play.log == ["-c"]


def test_a_child_that_is_cut_off_again_and_again_is_left_alone_for_longer_and_uses_up_no_budget() -> None:
    play = Play(plan(budget=Budget(failures_max=1), backoff=Backoff(first_seconds=1.0)))

    assert play.end("a", "cut_off") == ["+a"]
    assert play.end("a", "cut_off") == [f"wake {play.now + 1.0:g}"]
    assert play.watch.failures == ()


@pytest.mark.parametrize("way", ["normal", "error", "asked"])
def test_who_ends_at_once_again_and_again_is_started_only_so_often(way: Way) -> None:
    watch, starts = watch_over(plan()), 0
    for hundredth in range(1000):
        now = hundredth / 100
        watch, acts = reconcile(watch, now)
        starts += Start("a") in acts
        if watch.children["a"].phase == "starting":
            watch = ended(watch, "a", way, now)

    assert starts == 10 / START_EVERY_SECONDS


def test_who_was_told_to_end_is_started_again_at_once_however_short_it_lived() -> None:
    play = Play(plan())
    play.watch = restart(play.watch, "a")
    play.log.clear()
    play.go_on()

    assert play.log == ["-a", "+a"]


def test_a_temporary_sibling_that_has_to_end_is_not_started_again() -> None:
    children = (Child(name="a"), Child(name="b", restart="temporary"), Child(name="c", restart="transient"))
    play = Play(Supervisor(name="top", children=children, strategy="one_for_all"))

    assert play.end("a", "crash") == ["-c", "-b", "+a", "+c"]
    assert play.phases() == {"a": "ready", "b": "over", "c": "ready"}


@pytest.mark.parametrize("way", WAYS)
def test_only_crashes_hangs_and_failed_starts_use_up_the_budget(way: Way) -> None:
    play = Play(plan(budget=Budget(failures_max=3, seconds=60.0), backoff=Backoff(first_seconds=0.0)))

    for _ in range(4):
        play.end("a", way)
        play.watch = restart(play.watch, "a")
        play.go_on()

    assert bool(play.watch.closing) == (way in COUNTED)


@pytest.mark.parametrize(("restarts", "way"), [("temporary", "crash"), ("temporary", "hung")])
def test_who_is_not_started_again_uses_up_no_budget(restarts: Restart, way: Way) -> None:
    children = (*(Child(name=name, restart=restarts) for name in NAMES), Child(name="d"))
    play = Play(Supervisor(name="top", children=children, budget=Budget(failures_max=1)))
    for name in NAMES:
        assert play.end(name, way) == []

    assert play.phases() == {**dict.fromkeys(NAMES, "over"), "d": "ready"}
    assert play.watch.failures == ()
    assert {play.watch.children[name].failures for name in NAMES} == {1}


@pytest.mark.parametrize("way", ["crash", "configuration", "error"])
def test_who_fails_while_it_waits_to_be_ended_with_another_is_started_again_and_counted_no_more(way: Way) -> None:
    """One cause, one failure: a broker that is gone takes with it who would have been told to end next."""
    play = Play(plan("one_for_all", budget=Budget(failures_max=1)))
    play.is_willing = False
    assert play.end("b", "crash") == ["-c"]
    assert play.end("a", way) == []
    play.is_willing = True

    assert play.end("c", "asked") == ["+a", "+b", "+c"]
    assert len(play.watch.failures) == 1


def test_a_supervisor_over_its_budget_ends_everybody_and_says_so() -> None:
    play = Play(plan(budget=Budget(failures_max=1, seconds=60.0)))
    play.end("a", "crash")

    assert play.end("a", "crash") == ["-c", "-b", "gave up"]
    assert not ALIVE & set(play.phases().values())


def test_failures_are_forgotten_after_the_period_of_the_budget() -> None:
    play = Play(plan(budget=Budget(failures_max=1, seconds=60.0)))
    for _ in range(10):
        play.now += 61.0
        assert play.end("a", "crash") == ["+a"]


def test_the_budget_goes_on_where_a_predecessor_has_left_it() -> None:
    supervisor = plan(budget=Budget(failures_max=1, seconds=60.0))
    play = Play(supervisor)
    play.end("a", "crash")

    successor = Play(supervisor, now=1.0, counters=counters_of(play.watch))

    assert successor.end("a", "crash")[-1] == "gave up"


def test_failures_in_a_row_go_on_being_counted_however_slowly_they_come() -> None:
    supervisor = plan(budget=Budget(failures_max=1, seconds=60.0))
    play = Play(supervisor, is_willing=False)
    play.end("a", "never_ready")

    successor = Play(supervisor, now=1000.0, counters=counters_of(play.watch), is_willing=False)
    successor.end("a", "never_ready")

    assert successor.watch.closing == "give_up"


def test_a_child_that_is_left_alone_is_so_by_the_next_supervisor_too() -> None:
    supervisor = plan(backoff=Backoff(first_seconds=10.0, jitter=0.0))
    play = Play(supervisor)
    play.end("a", "crash")
    play.end("a", "crash")

    successor = Play(supervisor, now=1.0, counters=counters_of(play.watch))

    assert successor.log[:3] == ["+b", "+c", "wake 11"]
    assert successor.phases()["a"] == "down"
    assert {name: known.starts for name, known in successor.watch.children.items()} == {"a": 2, "b": 2, "c": 2}


def test_a_child_that_fails_again_and_again_is_left_alone_longer_and_longer() -> None:
    play = Play(plan(budget=Budget(failures_max=10, seconds=60.0), backoff=Backoff(first_seconds=1.0, seconds_max=3.0)))
    assert play.end("a", "crash") == ["+a"]
    for pause in (1.0, 2.0, 3.0, 3.0):
        assert play.end("a", "crash") == [f"wake {play.now + pause:g}"]
        play.now += pause
        play.go_on()
        assert play.phases()["a"] == "ready"

    play.now += 61.0
    assert play.end("a", "crash") == ["+a"]


@given(st.integers(1, 10_000), st.floats(0.0, 1.0))
def test_a_pause_is_never_longer_than_its_maximum_and_the_jitter(failures: int, chance: float) -> None:
    backoff = Backoff()

    assert 0.0 <= backoff.seconds(failures, chance) <= backoff.seconds_max * (1.0 + backoff.jitter)


def test_a_restart_by_request_costs_nothing_and_concerns_no_other() -> None:
    play = Play(plan("one_for_all"))
    play.log.clear()

    play.watch = restart(play.watch, "b")
    play.go_on()

    assert play.log == ["-b", "+b"]
    assert play.watch.failures == ()


def test_a_child_that_was_over_can_be_started_by_request() -> None:
    play = Play(plan())
    play.end("b", "configuration")
    assert play.phases()["b"] == "over"

    play.watch = restart(play.watch, "b")
    play.go_on()

    assert play.phases()["b"] == "ready"


def test_scaling_starts_the_new_and_forgets_the_old_when_they_have_ended() -> None:
    play = Play(plan())
    play.log.clear()
    fewer = Supervisor(name="top", children=(Child(name="a"), Child(name="d")))

    play.watch = replan(play.watch, fewer)
    play.go_on()

    assert sorted(play.log) == ["+d", "-b", "-c"]
    assert play.phases() == {"a": "ready", "d": "ready"}
    assert play.watch.plan == fewer


def test_a_child_that_comes_back_into_the_plan_while_it_ends_is_started_again() -> None:
    play = Play(plan())
    play.is_willing = False
    play.watch = replan(play.watch, Supervisor(name="top", children=(Child(name="a"),)))
    play.go_on()
    play.watch = replan(play.watch, plan())
    play.is_willing = True
    play.watch = ended(play.watch, "b", "asked", 0.0)
    play.watch = ended(play.watch, "c", "asked", 0.0)
    play.go_on()

    assert play.phases() == dict.fromkeys(NAMES, "ready")


def test_a_stop_during_a_restart_starts_nobody() -> None:
    play = Play(plan("one_for_all"))
    play.is_willing = False
    play.log.clear()
    play.watch = ended(play.watch, "b", "crash", 0.0)
    play.go_on()
    assert play.log == ["-c"]

    play.watch = stop(play.watch)
    play.is_willing = True
    play.watch = ended(play.watch, "c", "asked", 0.0)
    play.go_on()

    assert play.log == ["-c", "-a", "stopped"]


def test_a_child_that_fails_slowly_again_and_again_uses_up_the_budget_as_well() -> None:
    """Half a minute until it is killed for not being ready, and there are never many failures within a minute."""
    play = Play(plan(budget=Budget(failures_max=3, seconds=60.0), backoff=Backoff(first_seconds=0.0)))
    for _ in range(3):
        play.now += 45.0
        assert play.end("a", "never_ready") == ["+a"]

    play.now += 45.0
    assert play.end("a", "never_ready")[-1] == "gave up"


def test_a_person_who_stops_everybody_overrules_a_supervisor_that_gives_up() -> None:
    play = Play(plan(budget=Budget(failures_max=0)))
    play.is_willing = False
    play.end("a", "crash")
    play.watch = stop(play.watch)
    play.is_willing = True
    for name in ("c", "b"):
        play.watch = ended(play.watch, name, "asked", 0.0)
    play.log.clear()
    play.go_on()

    assert play.log == ["stopped"]


def test_a_clock_that_is_set_back_neither_counts_what_lies_ahead_nor_leaves_anybody_alone_for_long() -> None:
    play = Play(plan(budget=Budget(failures_max=2), backoff=Backoff(first_seconds=10.0, jitter=0.0)), now=10_000.0)
    play.end("a", "crash")
    play.end("b", "crash")
    play.now = 100.0

    assert play.end("a", "crash") == ["wake 110.5"]
    assert play.watch.failures == (100.5,)
    play.now = 105.0
    play.go_on()
    assert play.phases()["a"] == "down"
    play.now = -1000.0
    play.go_on()
    assert play.phases()["a"] == "ready"


happenings = st.lists(
    st.one_of(
        st.tuples(st.just("end"), st.sampled_from(NAMES), st.sampled_from(WAYS)),
        st.tuples(st.just("ready"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("restart"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("later"), st.none(), st.none()),
        st.tuples(st.just("stop"), st.none(), st.none()),
    ),
    max_size=40,
)


@given(st.sampled_from(STRATEGIES), st.lists(st.sampled_from(RESTARTS), min_size=3, max_size=3), happenings)
def test_whatever_happens_nobody_runs_twice_and_every_stop_is_of_somebody_who_runs(
    strategy: Strategy, restarts: list[Restart], happening: list[Any]
) -> None:
    children = tuple(Child(name=name, restart=kind) for name, kind in zip(NAMES, restarts, strict=True))
    watch = watch_over(Supervisor(name="top", children=children, strategy=strategy))
    running: set[str] = set()
    told: set[str] = set()
    now = 0.0
    for what, name, way in [("later", None, None), *happening]:
        if what == "end" and name in running:
            watch = ended(watch, name, "asked" if name in told else way, now)
            running.discard(name)
            told.discard(name)
        elif what == "ready" and name in running:
            watch = became_ready(watch, name, now)
        elif what == "restart":
            watch = restart(watch, name)
        elif what == "stop":
            watch = stop(watch)
        now += 10.0 if what == "later" else 0.1
        watch, acts = reconcile(watch, now)
        for act in acts:
            if isinstance(act, Start):
                assert act.name not in running
                assert not watch.closing
                running.add(act.name)
            elif isinstance(act, Stop):
                assert act.name in running - told
                told.add(act.name)
            elif isinstance(act, Closed):
                assert not running
        assert {name for name, known in watch.children.items() if known.phase in ALIVE} == running
        again, more = reconcile(watch, now)
        assert again == watch
        assert not [act for act in more if isinstance(act, Start | Stop)]
