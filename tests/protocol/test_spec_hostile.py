"""Texts made to hurt: whatever comes in, a spec or its own error comes out, and in bounded time.

What bounds the time is asserted as such (limits, a linear search); how long it takes is not, for machines differ.
"""

import random
from pathlib import Path

import msgspec
import pytest

from protocol.errors import SpecError
from protocol.spec import (
    FRONT_MATTER_BYTES_MAX,
    SPEC_BYTES_MAX,
    SPEC_LINES_MAX,
    Spec,
    SpecProblem,
    parse_spec,
    render_spec,
)
from protocol.spec.content import Content
from protocol.spec.dependencies import NamedId
from protocol.spec.graph import check_graph
from protocol.spec.problems import Problems
from protocol.spec.requirements import Draft

FRONT = "---\nid: demo\ntitle: Demo\n---\n"
SECTIONS = "## Vision\nv\n## Scope\ns\n## Requirements\n"
REQUIREMENT = "### R-001: One\nAcceptance criteria:\n- It works.\n"
TOO_LARGE = SpecProblem(
    line=1,
    what="the spec is larger than 1,048,576 bytes",
    fix="shorten it, or split it into several specs",
)
WHAT_CHARACTERS_MAX = 300

PLACES = {
    "alone": "",
    "below the front matter": FRONT,
    "in Vision": FRONT + "## Vision\n",
    "in a description": FRONT + SECTIONS + "### R-001: One\n",
    "in the criteria": FRONT + SECTIONS + REQUIREMENT + "- ",
    "in the dependencies": FRONT + SECTIONS + REQUIREMENT + "\nDependencies: ",
}
MARKS = [
    *(">", "> ", "[", "#", "# ", "*", "- ", "1. ", "`", "_", "<", "<!--", "[](", "<a b='", "\\", "\t", " ", "x"),
    *("\x00", "\u2028", "\U0001f600", "R-001 ", "- [ ] ", "Dependencies: "),
]
SHAPES = [
    *("> a\nb\n", ">\n", "- a\n", "-\n", "- - - - - - - - x\n", "+ - + - x\n", "1) a\n2. b\n", "- a\n  - b\n"),
    *("#\n", "# a\n", "## Vision\n", "a\n-\n", "=\n", "a\n\n", "    a\n", "***\n", "```\n", "- ```\n", "> ```\n"),
    *("- # a\n", "<div>\n", "<!--\n", "- <!--\n", "[a]: b\n", "[a]:\n", "|a|\n|-|\n> b\n", "> > > > > > > > x\n\n"),
    *("### R-001: t\n", "### R-0\n", "Acceptance criteria:\n", "Dependencies: R-001\n", "- Dependencies: R-001\n"),
    *("\x00\n", "\r"),
]


def outcome(source: str | bytes) -> Spec | tuple[SpecProblem, ...]:
    """A spec that survives being written out, or problems that a person can be shown."""
    try:
        spec = parse_spec(source)
    except SpecError as error:
        problems = error.problems
    else:
        assert parse_spec(render_spec(spec)) == spec
        return spec
    lines = [problem.line for problem in problems]
    assert lines
    assert lines == sorted(lines)
    assert msgspec.json.decode(msgspec.json.encode(problems), type=tuple[SpecProblem, ...]) == problems
    return problems


def problems_of(source: str | bytes) -> list[SpecProblem]:
    problems = outcome(source)
    assert not isinstance(problems, Spec)
    assert max(len(problem.what) for problem in problems) <= WHAT_CHARACTERS_MAX
    return list(problems)


def filled(unit: str, head: str = "") -> str:
    """`head` and as much of `unit` as a spec may have."""
    times = (SPEC_BYTES_MAX - len(head.encode())) // len(unit.encode())
    return head + unit * times


def test_fifty_megabytes_are_refused_for_their_size() -> None:
    size = 50 * 1024 * 1024

    assert problems_of("x" * size) == [TOO_LARGE]
    assert problems_of(b"\xff" * size) == [TOO_LARGE]
    assert problems_of(FRONT.encode() + bytes(size)) == [TOO_LARGE]


@pytest.mark.parametrize("seed", range(5))
def test_binary_noise_is_refused(seed: int) -> None:
    noise = random.Random(seed).randbytes(100_000)

    assert [problem.fix for problem in problems_of(noise)] == ["save it as UTF-8"]
    assert problems_of(FRONT.encode() + noise)[-1].what.startswith("the spec is not UTF-8 text: byte ")
    assert problems_of(FRONT + noise.decode("latin-1"))[0].fix == "delete it"
    assert problems_of(noise.decode("utf-16", "replace"))[-1].fix


@pytest.mark.parametrize("mark", MARKS)
def test_a_megabyte_of_one_mark_is_a_spec_or_has_problems(mark: str) -> None:
    for head in PLACES.values():
        result = outcome(filled(mark, head))
        assert isinstance(result, Spec) or max(len(each.what) for each in result) <= WHAT_CHARACTERS_MAX


@pytest.mark.parametrize("shape", SHAPES)
def test_many_lines_of_one_shape_are_a_spec_or_have_problems(shape: str) -> None:
    for head in PLACES.values():
        result = outcome(head + shape * 500)
        assert isinstance(result, Spec) or max(len(each.what) for each in result) <= WHAT_CHARACTERS_MAX


@pytest.mark.parametrize("shape", ["\n", "a\n", "#\n", "-\n", "\r\n"])
def test_more_lines_than_allowed_are_refused_before_they_are_read(shape: str) -> None:
    text = FRONT + shape * SPEC_LINES_MAX + "x"

    assert [problem.line for problem in problems_of(text)] == [SPEC_LINES_MAX + 1]


@pytest.mark.parametrize("depth", [11, 1000, 100_000])
@pytest.mark.parametrize("mark", ["- ", "* ", "1. ", "> - "])
def test_deep_nesting_is_refused_on_its_line(mark: str, depth: int) -> None:
    problems = problems_of(FRONT + "## Vision\n\n" + mark * depth + "x\n")

    assert [(problem.line, problem.fix) for problem in problems] == [(7, "write it with fewer levels")]


def test_nesting_that_grows_line_by_line_is_refused_where_it_is_too_deep() -> None:
    steps = "".join("  " * depth + "- x\n" for depth in range(1000))

    assert [problem.line for problem in problems_of(FRONT + "## Vision\n\n" + steps)] == [7 + 9]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{there}: &{there} [{', '.join([f'*{here}'] * 9)}]\n" for here, there in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_an_alias_bomb_is_refused_line_by_line_and_never_multiplied() -> None:
    problems = problems_of(f"---\nid: demo\ntitle: Demo\n{BOMB}x: *i\n---\n{SECTIONS}{REQUIREMENT}")

    assert [(problem.line, problem.what) for problem in problems] == [
        *((line, "the front matter has a list") for line in range(4, 13)),
        (13, "the front matter has an alias"),
    ]


def test_a_tag_calls_nothing(tmp_path: Path) -> None:
    made = tmp_path / "made"
    front = f"id: demo\ntitle: Demo\nx: !!python/object/apply:os.mkdir [{made}]\ny: !!python/name:os.system z"

    problems = problems_of(f"---\n{front}\n---\n{SECTIONS}{REQUIREMENT}")

    assert not made.exists()
    assert [(problem.line, problem.what) for problem in problems] == [
        (4, "the front matter has a list"),
        (5, "the front matter has a tag (“tag:yaml.org,2002:python/name:os.system”)"),
    ]


@pytest.mark.parametrize(
    "unit",
    [
        *("[", "{", "- ", "? ", ": ", "a: ", "{a: ", "[a, ", "[\n ", "&a ", "*a ", "!", "!!a ", "!<%41>", "%a\n"),
        *("|\n", ">\n", "#", "\t", "\n", "a:\n", "? a\n", "a: b\n", "'a': &a b\n", "...\n", "-\n", "\\", "@", "`"),
        *("'", '"', "\x00", "\u2028", "\ufeff", "\U0001f600", "<<: *a\n", "=\n", "~: ~\n"),
    ],
)
@pytest.mark.parametrize("key", ["", "a: ", 'a: "', "a: |\n "])
def test_front_matter_of_one_mark_has_problems(key: str, unit: str) -> None:
    front = key + unit * ((FRONT_MATTER_BYTES_MAX - 10) // len(unit.encode()))

    assert problems_of(f"---\n{front}\n---\n{SECTIONS}{REQUIREMENT}")


def test_front_matter_without_end_or_measure_is_refused_unread() -> None:
    assert [problem.what for problem in problems_of(filled("a: [\n", "---\n"))] == [
        "the spec has more than 50,000 lines"
    ]
    assert [problem.what for problem in problems_of(filled("[", "---\n"))] == ["the front matter has no end"]
    assert problems_of("---\n" + "[" * 1_000_000 + "\n---\n" + SECTIONS + REQUIREMENT) == [
        SpecProblem(
            line=1,
            what="the front matter is larger than 16,384 bytes",
            fix="keep short facts there and move longer text into a section",
        )
    ]


@pytest.mark.parametrize(
    "line",
    [
        "### R-" + "1" * 1_000_000 + ": One",
        "## " + "Requirements" * 80_000,
        "Dependencies: " + "R-001, " * 100_000,
        "Dependencies: R-" + "1" * 1_000_000,
        "Dependencies: " + " ".join(f"R-{number:03}" for number in range(2, 100_000)),
        "Dependencies" + " " * 1_000_000 + ": none",
        "Acceptance" + " \t" * 500_000 + "criteria",
        "*" * 1_000_000 + "Acceptance criteria" + "*" * 40_000,
        "- " + "[ ] " * 250_000,
    ],
    ids=lambda line: line[:24],
)
def test_a_very_long_line_is_a_spec_or_has_problems(line: str) -> None:
    result = outcome(FRONT + SECTIONS + REQUIREMENT + line)

    assert isinstance(result, Spec) or max(len(each.what) for each in result) <= WHAT_CHARACTERS_MAX


def requirements(count: int, needs: dict[int, int]) -> str:
    """Requirements on four lines each, every one of which depends on at most one other."""
    return "".join(
        f"### R-{number:05}: t\nAcceptance criteria:\n- c\n"
        f"Dependencies: {f'R-{needs[number]:05}' if number in needs else 'none'}\n"
        for number in range(1, count + 1)
    )


@pytest.mark.parametrize("step", [1, -1])
def test_a_chain_of_thousands_of_requirements_is_a_spec(step: int) -> None:
    count = 5_000
    needs = {number: number + step for number in range(1, count + 1) if 0 < number + step <= count}

    spec = outcome(FRONT + SECTIONS + requirements(count, needs))

    assert isinstance(spec, Spec)
    assert len(spec.requirements) == count


def test_a_circle_of_thousands_of_requirements_is_named_in_full() -> None:
    count = 5_000
    text = FRONT + SECTIONS + requirements(count, {number: number % count + 1 for number in range(1, count + 1)})

    with pytest.raises(SpecError) as raised:
        parse_spec(text)

    way = " → ".join(f"R-{number:05}" for number in [*range(1, count + 1), 1])
    assert [(problem.line, problem.what) for problem in raised.value.problems] == [
        (13, f"requirements depend on one another in a circle: {way}")
    ]


def test_thousands_of_circles_are_all_named() -> None:
    count = 5_000
    pairs = {number: number + 1 if number % 2 else number - 1 for number in range(1, count + 1)}

    problems = problems_of(FRONT + SECTIONS + requirements(count, pairs))

    assert len(problems) == count // 2
    assert problems[-1].what.endswith("in a circle: R-04999 → R-05000 → R-04999")


def test_tens_of_thousands_of_requirements_are_refused_for_their_size() -> None:
    assert problems_of(FRONT + SECTIONS + requirements(30_000, {})) == [TOO_LARGE]


@pytest.mark.parametrize("width", [1, 3])
def test_the_search_for_circles_knows_no_depth(width: int) -> None:
    count = 50_000
    names = [f"R-{number:05}" for number in range(count)]
    needs = [[NamedId(name, 0) for name in names[number + 1 : number + 1 + width]] for number in range(count)]
    drafts = [Draft(number, names[number], "t", Content("", ["c"], needs[number])) for number in range(count)]
    without_circle, with_circle = Problems(), Problems()

    check_graph(drafts, without_circle)
    needs[-1].append(NamedId(names[0], 0))
    check_graph(drafts, with_circle)

    without_circle.check()
    with pytest.raises(SpecError) as raised:
        with_circle.check()
    way = " → ".join([*names, names[0]])
    assert [problem.what for problem in raised.value.problems] == [
        f"requirements depend on one another in a circle: {way}"
    ]
