"""The table `tree`: what it says, what is refused with its line, and that no file makes the loader fail."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bus.settings import SettingsError, load
from bus.settings.catalogue import TREE
from bus.settings.tree import Actor, Edition, Group, Pool, Runs, Service, TreeText, default_tree
from bus.settings.tree_table import LEVELS_MAX, MEMBERS_MAX, PROBLEMS_MAX, render_tree
from protocol.machines import EDITIONS, MACHINES
from tests.bus.settings.projects import a_project, problems_of, refused

EDITION_NAMES: tuple[Edition, ...] = get_args(Edition)
RUNS = "must be broker, health, pm, architect, architect-classic, web, coder or coder-classic"
TOKEN = "must be 1 to 64 of a-z, 0-9, - and _"
PM = '[[tree.children]]\nname = "pm"\nruns = "pm"\n'
CODERS = '[[tree.children]]\nname = "coders"\nruns = "coder"\n'
EVERYTHING = """
[tree]
strategy = "rest_for_one"
in_order = false
failures_max = 0
failures_seconds = 30
pause_seconds = 1
pause_seconds_max = 2.5

[[tree.children]]
name = "health"
runs = "health"
restart = "temporary"

[[tree.children]]
name = "agents"
restart = "transient"
strategy = "one_for_all"
in_order = true

[[tree.children.children]]
name = "reviewer"
runs = "architect"
id = "second"
part = "my_package.parts:ARCHITECT"
restart = "transient"

[[tree.children.children]]
name = "crowd"
runs = "coder"
size = 0
part = "my_package.parts:CODER"
failures_max = 100
"""
ALL_OF_IT = TreeText(
    strategy="rest_for_one",
    in_order=False,
    failures_max=0,
    failures_seconds=30.0,
    pause_seconds=1.0,
    pause_seconds_max=2.5,
    children=(
        Service(name="health", runs="health", restart="temporary"),
        Group(
            name="agents",
            restart="transient",
            strategy="one_for_all",
            in_order=True,
            children=(
                Actor(
                    name="reviewer",
                    runs="architect",
                    id="second",
                    part="my_package.parts:ARCHITECT",
                    restart="transient",
                ),
                Pool(name="crowd", runs="coder", size=0, part="my_package.parts:CODER", failures_max=100),
            ),
        ),
    ),
)


def test_all_that_a_tree_can_say_is_read(tmp_path: Path) -> None:
    loaded = load({}, {}, a_project(tmp_path, EVERYTHING))

    assert loaded.settings.tree == ALL_OF_IT
    assert loaded.sources[TREE] == "callboard.toml"
    assert loaded.place(TREE) == f"{loaded.root}/callboard.toml:2"


def test_without_the_table_there_is_no_tree_and_the_editions_is_the_default(tmp_path: Path) -> None:
    loaded = load({}, {}, a_project(tmp_path))

    assert loaded.settings.tree is None
    assert loaded.sources[TREE] == "default"


@pytest.mark.parametrize("tree", [ALL_OF_IT, *map(default_tree, EDITION_NAMES)])
def test_what_is_written_is_read_as_the_same(tmp_path: Path, tree: TreeText) -> None:
    edition = "classic" if tree == default_tree("classic") else "standard"
    root = a_project(tmp_path, f'edition = "{edition}"\n{render_tree(tree)}\n')

    assert load({}, {}, root).settings.tree == tree


def test_every_machine_can_run_and_nothing_unknown(tmp_path: Path) -> None:
    assert set(get_args(Runs)) == {*MACHINES, "broker", "health", "web"}


@pytest.mark.parametrize("edition", EDITION_NAMES)
def test_a_default_tree_runs_the_machines_of_its_edition(edition: Edition) -> None:
    written = render_tree(default_tree(edition))

    assert [name for name in MACHINES if f'runs = "{name}"' in written] == list(EDITIONS[edition])


def test_no_variable_and_no_flag_gives_a_tree(tmp_path: Path) -> None:
    problems = refused(a_project(tmp_path), {"CALLBOARD_TREE": "x"}, {"tree": "x"})

    assert problems == ["flag --tree: tree is not a setting", "environment: CALLBOARD_TREE is not a setting"]


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("tree = 1", "1: tree must be a table, not 1; write its settings below a line [tree]"),
        ("tree = []", "1: tree must be a table, not an array; write its settings below a line [tree]"),
        ("[tree]", "1: tree.children have to be one or more tables; begin each with a line [[tree.children]]"),
        (
            "[tree]\nchildren = []",
            "2: tree.children have to be one or more tables; begin each with a line [[tree.children]]",
        ),
        (
            "[tree.children]\nname = 'pm'",
            "1: tree.children have to be one or more tables, not a table; begin each with a line [[tree.children]]",
        ),
        (
            PM + "[[tree.children]]\nname = 'agents'\nchildren = 1",
            "6: tree.children[1].children have to be one or more tables; begin each with a line "
            "[[tree.children.children]]",
        ),
        (
            "[tree]\nchildren = [\n{name = 'pm', runs = 'pm'},\n5]",
            "2: tree.children[1] must be a table, not 5; begin it with a line [[tree.children]]",
        ),
        (
            PM + "[tree]\nstategy = 'x'",
            "5: tree.stategy is not a setting of the root supervisor; did you mean strategy?",
        ),
        (
            PM + "[tree]\nstrategy = 'one_for_al'",
            "5: tree.strategy must be one_for_one, one_for_all or rest_for_one, not "
            '"one_for_al"; did you mean one_for_all?',
        ),
        (PM + "failures_max = 1", "4: tree.children[0].failures_max is not a setting of a single actor"),
        (
            PM + "size = 1",
            "4: tree.children[0].size is not a setting of a single actor; it belongs to a pool of coders",
        ),
        (PM + "retart = 1", "4: tree.children[0].retart is not a setting of a single actor; did you mean restart?"),
        (PM + "restart = 'no'", '4: tree.children[0].restart must be permanent, transient or temporary, not "no"'),
        (PM + "id = 'a.b'", f'4: tree.children[0].id {TOKEN}, not "a.b"'),
        (PM + "id = 'all'", '4: tree.children[0].id cannot be "all", which stands for everybody'),
        (PM + "part = 'parts'", '4: tree.children[0].part must be MODULE:NAME, not "parts"'),
        (
            CODERS + "id = 'main'",
            "4: tree.children[0].id is not a setting of a pool of coders; it belongs to a single actor",
        ),
        (CODERS + "size = 501", "4: tree.children[0].size must be a whole number from 0 up to 500, not 501"),
        (
            CODERS + "pause_seconds = 31",
            "4: tree.children[0].pause_seconds leaves pause_seconds, 31, over pause_seconds_max, 30; lower ",
        ),
        (
            PM + "[tree]\npause_seconds_max = 0.1",
            "5: tree.pause_seconds_max leaves pause_seconds, 0.5, over pause_seconds_max, 0.1; lower ",
        ),
        (CODERS + "size = '4'", '4: tree.children[0].size must be a whole number from 0 up to 500, not "4"'),
        (
            CODERS + "pause_seconds = inf",
            "4: tree.children[0].pause_seconds must be a number over 0 up to 3600, not inf",
        ),
        ("[[tree.children]]\nname = 'x'", "1: tree.children[0] has no runs; say what it runs, or give it children"),
        ("[[tree.children]]\nruns = 'pm'", "1: tree.children[0] has no name"),
        (
            "[[tree.children]]\nname = 'x'\nruns = 'codr'",
            f'3: tree.children[0].runs {RUNS}, not "codr"; did you mean coder?',
        ),
        ("[[tree.children]]\nname = 'x'\nruns = ['coder']", f"3: tree.children[0].runs {RUNS}, not an array"),
        ("[[tree.children]]\nname = 'X y'\nruns = 'pm'", f'2: tree.children[0].name {TOKEN}, not "X y"'),
        (
            "[[tree.children]]\nname = 'company'\nruns = 'pm'",
            """2: tree.children[0].name cannot be "company", which is a name of the supervisor's own""",
        ),
        (
            f"{PM}[[tree.children]]\nname = 'x'\nruns = 'web'\n[[tree.children.children]]\nname = 'y'\nruns = 'health'",
            "6: tree.children[1].runs is not a setting of a supervisor, which has children; it belongs to a pool of ",
        ),
    ],
)
def test_a_mistake_in_the_tree_is_told_with_its_line_what_is_wrong_and_what_to_do(
    tmp_path: Path, toml: str, expected: str
) -> None:
    root = a_project(tmp_path, toml)

    [problem] = refused(root)

    assert problem.startswith(f"{root}/callboard.toml:{expected}")


@pytest.mark.parametrize(
    ("toml", "line", "what", "other"),
    [
        (f"{PM}[[tree.children]]\nname = 'pm'\nruns = 'web'", 5, 'name is the name "pm" a second time', 2),
        (f"{PM}[[tree.children]]\nname = 'x'\nruns = 'pm'\nid = 'main'", 7, "id is the actor pm.main a second time", 1),
        (f"{PM}[[tree.children]]\nname = 'x'\nruns = 'pm'", 4, "id is the actor pm.main a second time", 1),
        (f"{CODERS}[[tree.children]]\nname = 'x'\nruns = 'coder'", 6, "runs is the pool of coders a second time", 3),
        (
            "[tree]\nchildren = [{name = 'a', runs = 'broker'}, {name = 'b', runs = 'broker'}]",
            2,
            'runs is "broker" a second time',
            2,
        ),
        (
            "[[tree.children]]\nname='a'\nruns='health'\n[[tree.children]]\nname='g'\n"
            "[[tree.children.children]]\nname='b'\nruns='health'",
            8,
            'children[0].runs is "health" a second time',
            3,
        ),
        (
            f"{CODERS}[[tree.children]]\nname = 'coder-999'\nruns = 'pm'",
            5,
            'name is "coder-999", as the pool of coders calls its own',
            3,
        ),
    ],
)
def test_two_that_cannot_be_there_together_are_told_with_both_lines(
    tmp_path: Path, toml: str, line: int, what: str, other: int
) -> None:
    root = a_project(tmp_path, toml)
    file = root / "callboard.toml"

    [problem] = refused(root)

    assert problem.startswith(f"{file}:{line}: tree.children[")
    assert what in problem
    assert problem.endswith(f"; the other is at {file}:{other}")


def test_another_name_with_a_number_is_no_pools_and_another_id_is_another_actor(tmp_path: Path) -> None:
    toml = f"{CODERS}{PM}[[tree.children]]\nname = 'coder-x'\nruns = 'pm'\nid = 'coder-1'"

    assert load({}, {}, a_project(tmp_path, toml)).settings.tree is not None


@pytest.mark.parametrize(("edition", "runs"), [("classic", "coder"), ("standard", "architect-classic")])
def test_machines_of_another_edition_contradict_it(tmp_path: Path, edition: str, runs: str) -> None:
    root = a_project(tmp_path, f"edition = '{edition}'\n[[tree.children]]\nname = 'x'\nruns = '{runs}'")

    [problem] = refused(root)

    assert f": edition and tree contradict: {runs} are not of the {edition} edition; its machines are " in problem


def test_the_edition_is_not_held_against_a_tree_that_is_refused_anyway(tmp_path: Path) -> None:
    problems = refused(a_project(tmp_path, f"edition = 'classic'\n{PM}size = 1"))

    assert len(problems) == 1


def test_all_problems_of_a_tree_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    tree = "[tree]\nin_order = 1\n[[tree.children]]\nname = 1\nruns = 'x'\n[[tree.children]]\nz = 1"
    toml = f"edition = 'x'\n{tree}\n[bus]\nx=1"

    places = [problem.place.rpartition(":")[2] for problem in problems_of(a_project(tmp_path, toml))]

    assert places == ["1", "3", "5", "6", "7", "7", "8", "10"]


def test_a_key_that_a_terminal_would_obey_is_escaped(tmp_path: Path) -> None:
    [problem] = refused(a_project(tmp_path, PM + '"\\u001b[2J" = 1'))

    assert "\x1b" not in problem
    assert "\\u001b[2J" in problem


def nested(levels: int) -> str:
    headers = (f"[[tree{'.children' * level}]]\nname = 'n{level}'\n" for level in range(1, levels + 1))
    return "".join(headers) + "runs = 'pm'\n"


def test_a_tree_is_as_deep_as_it_may_be_and_no_deeper(tmp_path: Path) -> None:
    root = a_project(tmp_path, nested(LEVELS_MAX))
    assert load({}, {}, root).settings.tree is not None

    for levels in (LEVELS_MAX + 1, 200):
        (root / "callboard.toml").write_text(nested(levels))
        [problem] = refused(root)
        assert problem.startswith(f"{root}/callboard.toml:{2 * LEVELS_MAX + 1}: ")
        assert problem.endswith(f"are nested more than {LEVELS_MAX} levels deep; write it flatter")


@pytest.mark.parametrize("toml", ["[tree" + ".children" * 5000 + "]", "tree" + ".children" * 5000 + " = 1"])
def test_a_key_of_thousands_of_names_is_one_problem(tmp_path: Path, toml: str) -> None:
    [problem] = refused(a_project(tmp_path, toml))

    assert "tree.children have to be one or more tables" in problem


def test_a_tree_has_as_many_members_as_it_may_have_and_no_more(tmp_path: Path) -> None:
    members = [f'[[tree.children]]\nname = "n{number}"\nruns = "pm"\nid = "n{number}"\n' for number in range(10_000)]
    root = a_project(tmp_path, "".join(members[:MEMBERS_MAX]))
    tree = load({}, {}, root).settings.tree
    assert tree is not None
    assert len(tree.children) == MEMBERS_MAX

    (root / "callboard.toml").write_text("".join(members))
    [problem] = refused(root)

    assert problem.startswith(f"{root}/callboard.toml:{4 * MEMBERS_MAX + 1}: tree.children[{MEMBERS_MAX}] is one more")


@pytest.mark.parametrize(
    "toml",
    [
        "[tree]\nchildren = [" + "1," * 400_000 + "]",
        "[tree]\nchildren = [" + "{}," * 200_000 + "]",
        PM + "".join(f"k{number} = 1\n" for number in range(50_000)),
    ],
    ids=["numbers", "tables", "keys"],
)
def test_a_tree_of_nothing_but_mistakes_is_told_briefly(tmp_path: Path, toml: str) -> None:
    problems = refused(a_project(tmp_path, toml))

    assert len(problems) == PROBLEMS_MAX + 1
    assert problems[-1].endswith(f" more keys in {TREE} are wrong")


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(get_args(Runs))
)
KEYS = st.sampled_from(["name", "runs", "size", "id", "part", "restart", "children", "strategy", "in_order", "x", ""])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


def inline(value: object) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f'"{key}" = {inline(each)}' for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(inline(each) for each in value) + "]"
        case bool():
            return str(value).lower()
        case str():
            return '"' + "".join(f"\\U{ord(each):08x}" for each in value) + '"'
        case None:
            return "1979-05-27"
        case _:
            return str(value)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=st.dictionaries(KEYS, VALUES, max_size=4))
def test_no_table_whatever_makes_the_loader_raise_anything_but_its_own_error(
    tmp_path: Path, table: dict[str, object]
) -> None:
    (tmp_path / "callboard.toml").write_text(f"tree = {inline(table)}\n", encoding="utf-8", errors="surrogatepass")

    try:
        tree = load({}, {}, tmp_path).settings.tree
    except SettingsError:
        return
    assert tree is not None
    assert tree.children
