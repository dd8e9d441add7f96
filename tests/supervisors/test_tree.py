"""The whole tree: order across supervisors, escalation, restarts of a part of it, scaling, and one property."""

from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from supervisors.core import tree as trees
from supervisors.core.plans import Backoff, Budget, Child, Plan, Supervisor, walk
from supervisors.core.tree import (
    Closed,
    GaveUp,
    StartChild,
    StopChild,
    TreeAct,
    Wake,
    became_ready,
    begin_anew,
    counters_of,
    ended,
    known,
    nobody_can_start,
    plant,
    reconcile,
    replan,
    restart,
    stop,
    stop_at_once,
)
from supervisors.core.watch import ALIVE, Count, Counters, Way

NO_PAUSE = Backoff(first_seconds=0.0, jitter=0.0)
WAYS: tuple[Way, ...] = get_args(Way)
LIVED_SECONDS = 0.5


def a_plan(coders: int = 2, **coders_more: Any) -> Supervisor:
    """broker → agents {pm, architect} → coders."""
    pool = tuple(Child(name=f"coder-{number}", runs="coder") for number in range(1, coders + 1))
    more = {"budget": Budget(failures_max=1), "backoff": NO_PAUSE, **coders_more}
    children: tuple[Plan, ...] = (
        Child(name="broker", runs="broker"),
        Supervisor(name="agents", children=(Child(name="pm"), Child(name="architect")), backoff=NO_PAUSE),
        Supervisor(name="coders", children=pool, **more),
    )
    budget = Budget(failures_max=1)
    return Supervisor(name="company", children=children, in_order=True, budget=budget, backoff=NO_PAUSE)


class Play:
    """A tree whose children do at once what it says, unless a test has them do otherwise."""

    def __init__(
        self, plan: Supervisor, counters: dict[str, Counters] | None = None, *, is_willing: bool = True
    ) -> None:
        self.tree = plant(plan, counters)
        self.is_willing = is_willing
        self.now = 0.0
        self.log: list[str] = []
        self.go_on()

    def go_on(self) -> list[str]:
        while True:
            self.tree, acts = reconcile(self.tree, self.now)
            for act in acts:
                self._do(act)
            if not self.is_willing or not any(isinstance(act, StartChild | StopChild) for act in acts):
                return self.log

    def _do(self, act: TreeAct) -> None:
        match act:
            case StartChild(child):
                self.log.append(f"+{child.name}")
                if self.is_willing:
                    self.tree = became_ready(self.tree, child.name, self.now)
            case StopChild(name):
                self.log.append(f"-{name}")
                if self.is_willing:
                    self.tree = ended(self.tree, name, "asked", self.now)
            case GaveUp(name):
                self.log.append(f"{name} gave up")
            case Closed(gave_up):
                self.log.append("gave up" if gave_up else "closed")
            case Wake(at):
                self.log.append(f"wake {at:g}")

    def end(self, name: str, way: Way) -> list[str]:
        self.now += LIVED_SECONDS
        self.log.clear()
        self.tree = ended(self.tree, name, way, self.now)
        return self.go_on()

    def phase(self, name: str) -> str:
        found = known(self.tree, name)
        return found.phase if found else "unknown"


def a_company_that_has_given_up() -> Play:
    play = Play(a_plan())
    for _ in range(4):
        play.end("coder-1", "crash")
    play.log.clear()
    return play


def test_the_company_is_started_in_order_and_stopped_in_reverse() -> None:
    play = Play(a_plan())
    assert play.log == ["+broker", "+pm", "+architect", "+coder-1", "+coder-2"]
    assert play.phase("coders") == "ready"

    play.log.clear()
    play.tree = stop(play.tree)

    assert play.go_on() == ["-coder-2", "-coder-1", "-architect", "-pm", "-broker", "closed"]


def test_a_supervisor_is_waited_for_until_all_of_its_children_are_ready() -> None:
    play = Play(a_plan(), is_willing=False)
    started = [play.go_on()[:]]
    for name in ("broker", "pm", "architect"):
        play.tree = became_ready(play.tree, name, 0.0)
        started.append(play.go_on()[:])

    assert started == [
        ["+broker"],
        ["+broker", "+pm", "+architect"],
        ["+broker", "+pm", "+architect"],
        ["+broker", "+pm", "+architect", "+coder-1", "+coder-2"],
    ]


def test_a_child_that_crashes_is_no_business_of_any_other_supervisor() -> None:
    play = Play(a_plan())

    assert play.end("coder-1", "crash") == ["+coder-1"]
    assert play.end("pm", "crash") == ["+pm"]


def test_a_supervisor_over_its_budget_ends_its_children_and_is_started_again_by_its_parent() -> None:
    play = Play(a_plan())
    play.end("coder-1", "crash")

    assert play.end("coder-1", "crash") == ["-coder-2", "coders gave up", "+coder-1", "+coder-2"]
    assert play.phase("coders") == "ready"


def test_when_that_does_not_help_the_root_gives_up_and_says_so() -> None:
    play = Play(a_plan())
    for _ in range(3):
        play.end("coder-1", "crash")

    assert play.end("coder-1", "crash") == [
        "-coder-2", "coders gave up", "-architect", "-pm", "-broker", "company gave up",
    ]  # fmt: skip
    assert play.tree.gave_up
    assert play.go_on()[6:] == []


def test_a_company_that_has_given_up_begins_anew_with_whole_budgets_and_goes_on_counting_its_children() -> None:
    play = a_company_that_has_given_up()

    play.tree = begin_anew(play.tree)

    assert play.go_on() == ["+broker", "+pm", "+architect", "+coder-1", "+coder-2"]
    assert not play.tree.gave_up
    counters = counters_of(play.tree)
    assert [each.failures for each in counters.values()] == [(), (), ()]
    assert counters["coders"].children == {"coder-1": Count(starts=5, failures=4), "coder-2": Count(starts=3)}


def test_who_wants_it_to_begin_anew_while_it_gives_up_need_not_say_so_again() -> None:
    play = Play(a_plan())
    for _ in range(3):
        play.end("coder-1", "crash")
    play.is_willing = False
    play.end("coder-1", "crash")
    assert play.end("coder-2", "asked") == ["coders gave up", "-architect", "-pm"]
    play.tree = begin_anew(play.tree)
    for name in ("architect", "pm", "broker"):
        play.end(name, "asked")

    assert play.log == ["company gave up", "+broker"]


def test_a_company_that_has_given_up_has_as_many_as_it_was_scaled_to_when_it_begins_anew() -> None:
    play = a_company_that_has_given_up()
    play.tree = replan(play.tree, a_plan(coders=3))
    assert play.go_on() == []

    play.tree = begin_anew(play.tree)

    assert play.go_on()[-3:] == ["+coder-1", "+coder-2", "+coder-3"]


def test_a_company_that_has_given_up_and_is_closed_says_both() -> None:
    play = a_company_that_has_given_up()

    play.tree = stop(play.tree)

    assert play.go_on() == ["gave up"]


def test_nobody_begins_anew_who_has_not_given_up() -> None:
    play = Play(a_plan())

    assert begin_anew(play.tree) == play.tree
    assert begin_anew(stop(play.tree)) == stop(play.tree)


def test_counters_go_on_in_the_next_tree() -> None:
    play = Play(a_plan())
    play.end("coder-1", "crash")

    successor = Play(a_plan(), counters_of(play.tree))

    assert successor.end("coder-1", "crash")[:2] == ["-coder-2", "coders gave up"]


def test_a_supervisor_that_begins_anew_has_its_budget_back_and_goes_on_counting_its_children() -> None:
    play = Play(a_plan())
    for _ in range(2):
        play.end("coder-1", "crash")

    counters = counters_of(play.tree)["coders"]
    assert counters.failures == ()
    assert counters.children == {"coder-1": Count(starts=3, failures=2), "coder-2": Count(starts=2)}


def test_counters_of_a_supervisor_that_is_not_yet_at_work_are_kept() -> None:
    counters = {"coders": Counters(failures=(1.0,))}
    play = Play(a_plan(), counters, is_willing=False)

    assert counters_of(play.tree)["coders"] == counters["coders"]


def test_a_part_of_the_tree_begins_anew_by_request() -> None:
    play = Play(a_plan())
    play.log.clear()

    play.tree = restart(play.tree, "coders")

    assert play.go_on() == ["-coder-2", "-coder-1", "+coder-1", "+coder-2"]


def test_a_stop_while_a_part_begins_anew_starts_nobody() -> None:
    play = Play(a_plan(), is_willing=True)
    play.is_willing = False
    play.log.clear()
    play.tree = restart(play.tree, "coders")
    play.go_on()
    play.tree = stop(play.tree)
    play.is_willing = True
    for name in ("coder-1", "coder-2"):
        play.tree = ended(play.tree, name, "asked", 0.0)

    assert play.go_on() == ["-coder-2", "-coder-1", "-architect", "-pm", "-broker", "closed"]


def test_when_all_are_ended_at_once_nobody_is_started_again_meanwhile() -> None:
    play = Play(a_plan(), is_willing=False)
    for name in ("broker", "pm", "architect", "coder-1", "coder-2"):
        play.tree = became_ready(play.tree, name, 0.0)
        play.go_on()
    play.log.clear()
    play.tree = stop_at_once(play.tree)
    for name in ("broker", "pm", "coder-2", "architect", "coder-1"):
        play.tree = ended(play.tree, name, "crash", 0.0)
        play.go_on()

    assert not [entry for entry in play.log if entry.startswith("+")]
    assert play.log[-1] == "closed"


def test_scaling_concerns_nobody_who_stays() -> None:
    play = Play(a_plan(coders=2))
    play.log.clear()

    play.tree = replan(play.tree, a_plan(coders=4))
    assert play.go_on() == ["+coder-3", "+coder-4"]
    play.tree = replan(play.tree, a_plan(coders=1))

    assert play.go_on()[2:] == ["-coder-4", "-coder-3", "-coder-2"]
    assert play.phase("coder-2") == "unknown"


def test_a_child_of_a_wrong_configuration_is_passed_over_by_those_after_it() -> None:
    play = Play(a_plan(), is_willing=False)
    play.tree = became_ready(play.tree, "broker", 0.0)
    play.go_on()
    for name in ("pm", "architect"):
        play.tree = ended(play.tree, name, "configuration", 0.0)

    assert play.go_on()[-2:] == ["+coder-1", "+coder-2"]
    assert play.phase("pm") == "over"


def test_nobody_can_start_when_all_actors_are_over_for_their_configuration() -> None:
    play = Play(a_plan(coders=1), is_willing=False)
    play.tree = became_ready(play.tree, "broker", 0.0)
    play.go_on()
    could = []
    for name in ("pm", "architect", "coder-1"):
        play.end(name, "configuration")
        could.append(nobody_can_start(play.tree))

    assert could == [False, False, True]


def test_who_runs_again_after_its_configuration_was_mended_can_start() -> None:
    play = Play(a_plan(coders=1))
    play.end("pm", "configuration")
    play.tree = restart(play.tree, "pm")
    play.go_on()
    for name in ("architect", "coder-1"):
        play.end(name, "configuration")

    assert not nobody_can_start(play.tree)
    assert play.phase("pm") == "ready"


NAMES = tuple(each.name for each in walk(a_plan()) if isinstance(each, Child))
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("end"), st.sampled_from(NAMES), st.sampled_from(WAYS)),
        st.tuples(st.just("ready"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("restart"), st.sampled_from((*NAMES, "agents", "coders")), st.none()),
        st.tuples(st.just("scale"), st.integers(0, 4), st.none()),
        st.tuples(st.just("later"), st.none(), st.none()),
        st.tuples(st.just("anew"), st.none(), st.none()),
        st.tuples(st.just("stop"), st.none(), st.none()),
    ),
    max_size=40,
)


@given(happenings)
def test_whatever_happens_nobody_runs_twice_and_a_closed_company_has_nobody_left(happening: list[Any]) -> None:
    tree = plant(a_plan())
    running: set[str] = set()
    told: set[str] = set()
    now = 0.0
    for what, name, way in [("later", None, None), *happening]:
        if what == "end" and name in running:
            tree = ended(tree, name, "asked" if name in told else way, now)
            running.discard(name)
            told.discard(name)
        elif what == "ready" and name in running:
            tree = became_ready(tree, name, now)
        elif what == "restart":
            tree = restart(tree, name)
        elif what == "scale":
            tree = replan(tree, a_plan(coders=name))
        elif what == "anew":
            tree = begin_anew(tree)
        elif what == "stop":
            tree = stop(tree)
        now += 10.0 if what == "later" else 0.1
        tree, acts = reconcile(tree, now)
        for act in acts:
            if isinstance(act, StartChild):
                assert act.child.name not in running
                running.add(act.child.name)
            elif isinstance(act, StopChild):
                assert act.name in running - told
                told.add(act.name)
            elif isinstance(act, Closed) or (isinstance(act, GaveUp) and act.name == tree.plan.name):
                assert not running
        alive = {
            name
            for watch in tree.watches.values()
            for name, each in watch.children.items()
            if each.phase in ALIVE and name not in tree.watches and name not in ("agents", "coders")
        }
        assert alive == running
        assert trees.reconcile(tree, now)[0] == tree
