"""From the settings to the plan: the trees by default, one of a person's own, and what scaling changes."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.settings import Settings, load
from bus.settings.model import Bus, Parts, Supervision
from bus.settings.tree import Actor, Group, Pool, Service, Supervising, TreeText
from supervisors.core.planning import plan_of, pool_sizes, scale
from supervisors.core.plans import Backoff, Budget, Child, Supervisor, walk
from supervisors.errors import ScaleError

SIZES = st.integers(0, 500)
NO_CODERS = TreeText(children=(Service(name="health", runs="health"),))


def a_company(**more: Any) -> Settings:
    return Settings(project="demo", **more)


def coders(count: int, runs: str = "coder", **more: Any) -> Supervisor:
    names = [f"coder-{number}" for number in range(1, count + 1)]
    return Supervisor(name="coders", children=tuple(Child(name=name, runs=runs, actor=name, **more) for name in names))


BROKER = Child(name="broker", runs="broker")
HEALTH = Child(name="health", runs="health")
WEB = Child(name="web", runs="web", actor="main", restart="transient")
PM = Child(name="pm", runs="pm", actor="main")
ARCHITECT = Child(name="architect", runs="architect", actor="main")
AGENTS = Supervisor(name="agents", children=(PM, ARCHITECT))


def test_by_default_the_standard_edition_runs_in_order() -> None:
    plan = plan_of(a_company())

    assert plan == Supervisor(name="company", in_order=True, children=(BROKER, HEALTH, AGENTS, coders(4), WEB))


def test_the_classic_edition_runs_its_own_machines_and_no_pm() -> None:
    architect = Child(name="architect", runs="architect-classic", actor="main")
    agents = Supervisor(name="agents", children=(architect,))

    plan = plan_of(a_company(edition="classic", supervisor=Supervision(coders=1)))

    children = (BROKER, HEALTH, agents, coders(1, "coder-classic"), WEB)
    assert plan == Supervisor(name="company", in_order=True, children=children)


def test_a_broker_of_somebody_elses_is_not_run() -> None:
    embedded, elsewhere = plan_of(a_company()), plan_of(a_company(bus=Bus(url="nats://elsewhere")))

    assert embedded.children[0] == BROKER
    assert elsewhere.children == embedded.children[1:]


def test_a_broker_that_the_tree_names_is_left_out_wherever_it_stands() -> None:
    base = Group(name="base", children=(Service(name="nats", runs="broker"), Service(name="health", runs="health")))

    plan = plan_of(a_company(bus=Bus(url="nats://elsewhere"), tree=TreeText(children=(base,))))

    assert plan.children == (Supervisor(name="base", children=(HEALTH,)),)


def test_a_tree_of_ones_own_is_the_plan(tmp_path: Path) -> None:
    (tmp_path / "callboard.toml").write_text("""
        project = "demo"
        [tree]
        strategy = "rest_for_one"
        in_order = false
        failures_max = 2
        failures_seconds = 10
        pause_seconds = 1
        pause_seconds_max = 8
        [[tree.children]]
        name = "people"
        restart = "temporary"
        strategy = "one_for_all"
        in_order = true
        [[tree.children.children]]
        name = "reviewer"
        runs = "architect"
        id = "second"
        part = "my_package:ARCHITECT"
        restart = "transient"
        [[tree.children.children]]
        name = "crowd"
        runs = "coder"
        size = 2
        restart = "temporary"
        failures_max = 50
    """)

    plan = plan_of(load({}, {}, tmp_path).settings)

    reviewer = Child(
        name="reviewer", runs="architect", actor="second", part="my_package:ARCHITECT", restart="transient"
    )
    crowd = msgspec.structs.replace(coders(2, restart="temporary"), name="crowd", budget=Budget(failures_max=50))
    people = Supervisor(
        name="people", children=(reviewer, crowd), strategy="one_for_all", restart="temporary", in_order=True
    )
    assert plan == Supervisor(
        name="company",
        children=(people,),
        strategy="rest_for_one",
        budget=Budget(failures_max=2, seconds=10.0),
        backoff=Backoff(first_seconds=1.0, seconds_max=8.0),
    )


def test_who_plays_a_machine_is_said_by_the_tree_else_by_the_parts() -> None:
    parts = Parts(pm="mine:PM", architect_classic="mine:CLASSIC", coder="mine:CODER", web="mine:WEB")
    tree = TreeText(
        children=(
            Actor(name="pm", runs="pm", part="tree:PM"),
            Actor(name="architect", runs="architect-classic"),
            Actor(name="web", runs="web"),
            Actor(name="other", runs="architect", id="other"),
            Pool(name="coders", runs="coder", size=1),
        )
    )

    plan = plan_of(a_company(parts=parts, tree=tree))

    played = {each.name: each.part for each in walk(plan) if isinstance(each, Child)}
    assert played == {
        "pm": "tree:PM",
        "architect": "mine:CLASSIC",
        "web": "mine:WEB",
        "other": "",
        "coder-1": "mine:CODER",
    }


def test_a_supervisor_by_default_is_what_the_settings_say_it_is() -> None:
    written, planned = Supervising(), Supervisor(name="any")

    assert (written.strategy, written.in_order) == (planned.strategy, planned.in_order)
    assert (written.failures_max, written.failures_seconds) == (planned.budget.failures_max, planned.budget.seconds)
    assert written.pause_seconds == planned.backoff.first_seconds
    assert written.pause_seconds_max == planned.backoff.seconds_max


@pytest.mark.parametrize(
    ("size", "sizes", "expected"),
    [
        (None, {}, 3),
        (2, {}, 2),
        (0, {}, 0),
        (None, {"coder": 7}, 7),
        (2, {"coder": 0}, 0),
        (2, {"architect": 5, "nobody": 5}, 2),
    ],
)
def test_a_pool_is_as_large_as_somebody_scaled_it_else_as_its_table_says_else_as_the_settings_say(
    size: int | None, sizes: dict[str, int], expected: int
) -> None:
    tree = TreeText(children=(Pool(name="coders", runs="coder", size=size),))
    settings = a_company(tree=tree, supervisor=Supervision(coders=3))

    assert pool_sizes(settings, sizes) == {"coder": expected}
    assert plan_of(settings, sizes).children == (coders(expected),)


@given(before=SIZES, after=SIZES)
def test_scaling_starts_and_ends_coders_at_the_end_of_the_pool_and_changes_nothing_else(
    before: int, after: int
) -> None:
    settings = a_company()

    old, new = (list(walk(plan_of(settings, {"coder": size}))) for size in (before, after))

    pools = [pool for plan in (old, new) for pool in plan if pool.name == "coders"]
    assert [len(pool.children) for pool in pools if isinstance(pool, Supervisor)] == [before, after]
    kept = min(before, after)
    assert [each for each in old if each.name.startswith("coder-")][:kept] == [
        each for each in new if each.name.startswith("coder-")
    ][:kept]
    old_others, new_others = (
        [each for each in plan if isinstance(each, Child) and each.runs != "coder"] for plan in (old, new)
    )
    assert old_others == new_others


def test_scaling_keeps_what_was_scaled_before() -> None:
    settings = a_company()

    sizes = scale(settings, scale(settings, {"other": 1}, "coder", 8), "coder", 0)

    assert sizes == {"other": 1, "coder": 0}
    assert pool_sizes(settings, sizes) == {"coder": 0}


@pytest.mark.parametrize(
    ("settings", "role", "size", "expected"),
    [
        (a_company(), "coders", 3, "coders=3: there is no pool of that role, only of coder"),
        (a_company(), "pm", 3, "pm=3: there is no pool of that role, only of coder"),
        (a_company(tree=NO_CODERS), "coder", 3, "coder=3: the tree has no pool"),
        (a_company(), "coder", 501, "coder=501: a pool has 0 to 500"),
        (a_company(), "coder", -1, "coder=-1: a pool has 0 to 500"),
        (
            a_company(edition="classic"),
            "coder-classic",
            1,
            "coder-classic=1: there is no pool of that role, only of coder",
        ),
    ],
)
def test_what_cannot_be_scaled_is_refused(settings: Settings, role: str, size: int, expected: str) -> None:
    with pytest.raises(ScaleError) as caught:
        scale(settings, {}, role, size)

    assert str(caught.value) == expected
    assert (caught.value.role, caught.value.size) == (role, size)
