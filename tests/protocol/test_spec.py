"""The spec format by example: what is valid, every problem with its line, and the examples that people copy from."""

import re
from pathlib import Path

import pytest

from protocol.errors import PROBLEMS_SHOWN_MAX, SpecError
from protocol.spec import (
    FRONT_MATTER_BYTES_MAX,
    SPEC_BYTES_MAX,
    SPEC_LINES_MAX,
    Requirement,
    Spec,
    parse_spec,
    render_spec,
)

ROOT = Path(__file__).parent.parent.parent

FRONT = "---\nid: demo\ntitle: Demo\n---\n"
SECTIONS = "## Vision\nv\n## Scope\ns\n## Requirements\n"
HEAD = FRONT + SECTIONS  # nine lines, so that what follows begins on line 10
CRITERIA = "Acceptance criteria:\n- It works.\n"
ONE = f"### R-001: One\n{CRITERIA}"
TWO = f"### R-002: Two\n{CRITERIA}"
VALID = HEAD + ONE

FIX_CRITERIA = "write a line `**Acceptance criteria:**` and below it a list of what has to be true"
FIX_HEADING = "write it as `### R-001: Title`, with R-, three to nine digits, a colon and a title"
FIX_HIDDEN = "put it at the beginning of a line of its own, without a marker"
FIX_IDS = "name ids such as R-001 with commas between them, or write `none`, and leave an empty line after it"
FIX_PLAIN = "write `key: value` on one line, the value as plain text"
FIX_YAML = "write one `key: value` to a line, and put a value with : or # in it between quotes"
FIX_SIZE = "shorten it, or split it into several specs"
FIX_STRAY = "move it below `## Requirements`, as a heading `###`, or begin the heading with another word"


def problems_of(source: str | bytes) -> list[str]:
    """Each as `line N: what; fix`."""
    with pytest.raises(SpecError) as raised:
        parse_spec(source)
    assert all(problem.what and problem.fix for problem in raised.value.problems)
    return [str(problem) for problem in raised.value.problems]


def with_front_matter(lines: str) -> str:
    """A spec that is valid but for its front matter, which begins on line 2."""
    return f"---\n{lines}\n---\n{SECTIONS}{ONE}"


def one_requirement(source: str | bytes) -> Requirement:
    (requirement,) = parse_spec(source).requirements
    return requirement


def test_a_complete_spec_is_read_whole() -> None:
    text = """---
id: greeter
title: A greeter
owner: Ada
---
# A greeter

## Vision
Be *kind*.

And brief.

## Scope
In: one line.

## Requirements

### R-001: Greet
Print a line:

```
### R-999: not a requirement
```

**Acceptance criteria:**
- It is printed.
- It ends,
  with a line end.

### R-002: Greet well
**Dependencies:** R-001
**Acceptance criteria:**
1. It is friendly.

## Open questions
Which language?
"""

    assert parse_spec(text) == Spec(
        id="greeter",
        title="A greeter",
        vision="Be *kind*.\n\nAnd brief.",
        scope="In: one line.",
        requirements=(
            Requirement(
                id="R-001",
                title="Greet",
                description="Print a line:\n\n```\n### R-999: not a requirement\n```",
                acceptance_criteria=("It is printed.", "It ends,\nwith a line end."),
            ),
            Requirement(
                id="R-002",
                title="Greet well",
                acceptance_criteria=("It is friendly.",),
                depends_on=("R-001",),
            ),
        ),
        metadata={"owner": "Ada"},
        extra={"Open questions": "Which language?"},
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(VALID.encode(), id="bytes"),
        pytest.param("\ufeff" + VALID, id="byte order mark"),
        pytest.param(b"\xef\xbb\xbf" + VALID.encode(), id="byte order mark in bytes"),
        pytest.param(VALID.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(VALID.replace("\n", "\r"), id="CR"),
        pytest.param("\n \n" + VALID + "\n\n \t\n", id="blank lines around"),
        pytest.param(VALID.rstrip("\n"), id="no line end at the end"),
        pytest.param(VALID.replace("---\n", "--- \n"), id="spaces after ---"),
        pytest.param(VALID.replace("id: demo", "# a comment\n'id': \"demo\""), id="quotes and a comment in YAML"),
        pytest.param(VALID.replace("title: Demo", "title: >\n  Demo"), id="folded title"),
        pytest.param(VALID.replace("## Vision", "# The title\n\n## Vision"), id="title above the sections"),
        pytest.param(VALID.replace("## Vision", "## VISION ##").replace("## Scope", "\nScope\n-----"), id="headings"),
        pytest.param(VALID.replace("## ", "# ").replace("#### ", "### "), id="sections of level 1"),
        pytest.param(VALID.replace("## ", "# "), id="requirements of level 2"),
        pytest.param(VALID.replace("### ", "##### "), id="requirements of level 5"),
        pytest.param(VALID.replace("R-001: One", "R-001 :  One ###"), id="spaces in the heading"),
        pytest.param(HEAD + "---\n" + ONE + "\n---\n", id="rules around a requirement"),
        pytest.param(VALID.replace("Acceptance criteria:", "**Acceptance criteria:**"), id="bold label"),
        pytest.param(VALID.replace("Acceptance criteria:", "__ACCEPTANCE Criteria__:"), id="bold label, late colon"),
        pytest.param(VALID.replace("Acceptance criteria:", "Acceptance criteria"), id="bare label"),
        pytest.param(VALID.replace("Acceptance criteria:", "#### Acceptance criteria"), id="label as a heading"),
        pytest.param(VALID.replace("Acceptance criteria:", "### Acceptance criteria\n"), id="label as a high heading"),
        pytest.param(VALID.replace("- It", "\n  * It"), id="indented bullet"),
        pytest.param(VALID.replace("- It", "- [ ] It"), id="checkbox"),
        pytest.param(VALID.replace("- It", "+ [x] It"), id="ticked checkbox"),
        pytest.param(VALID.replace("- It", "1. It"), id="numbered"),
        pytest.param(VALID.replace("- It", "\n12) [X] It"), id="numbered checkbox"),
        pytest.param(VALID.replace("- It", "-\tIt"), id="tab"),
        pytest.param(VALID.replace("- It", "\n-\n  It"), id="marker alone"),
        pytest.param(VALID + "Dependencies: none\n", id="no dependencies, below the list"),
        pytest.param(VALID + "\n**Dependencies:** None.\n---\n", id="no dependencies, above a rule"),
        pytest.param(VALID + "\n#### Depends on\n\n- none\n", id="no dependencies, in a list"),
    ],
)
def test_variants_of_writing_give_the_same_spec(source: str | bytes) -> None:
    assert parse_spec(source) == parse_spec(VALID)


@pytest.mark.parametrize(
    "written",
    [
        "Dependencies: R-001, R-002\n\n" + CRITERIA,
        "Dependencies: R-001, R-002\n" + CRITERIA,
        CRITERIA + "Dependencies: R-001, R-002\n",
        CRITERIA + " Depends on: R-001; R-002\n",
        CRITERIA + "**Dependencies:** R-001 and R-002.\n",
        CRITERIA + "**Dependencies**: `R-001`, **R-002**\n",
        CRITERIA + "Dependencies: [R-001, R-002]\n",
        CRITERIA + "Dependencies: R-001,\n  R-002\n",
        CRITERIA + "Dependencies:\n- R-001\n- R-002\n",
        CRITERIA + "\nDependencies:\n\nR-001 R-002\n",
        CRITERIA + "#### Dependencies\n1. R-001\n2. R-002\n",
        CRITERIA + "##### Dependencies: R-001, R-002\n",
        CRITERIA + "> - A quote.\nDependencies: R-001, R-002\n",
    ],
)
def test_dependencies_can_be_written_in_many_ways(written: str) -> None:
    spec = parse_spec(HEAD + ONE + TWO + "### R-003: Three\n" + written)

    assert spec.requirements[2].depends_on == ("R-001", "R-002")
    assert spec.requirements[2].acceptance_criteria == ("It works.",)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("- a\n- b\n", ("a", "b")),
        ("- a\n\n\n- b\n", ("a", "b")),
        ("- a\n* b\n1. c\n", ("a", "b", "c")),
        ("- a\nlazy\n- b\n", ("a\nlazy", "b")),
        ("- a\n  - nested\n  - twice\n- b\n", ("a\n- nested\n- twice", "b")),
        ("1. a\n   ```\n   code\n     more\n   ```\n", ("a\n```\ncode\n  more\n```",)),
        ("-     a\n", ("a",)),
        ("- [ ] [x] a\n", ("a",)),
        ("- [link](x)\n", ("[link](x)",)),
        ("- our\n  dependencies: only the standard library\n", ("our\ndependencies: only the standard library",)),
        ("- Dependencies: none are added\n", ("Dependencies: none are added",)),
    ],
)
def test_acceptance_criteria_are_the_items_of_the_list(written: str, expected: tuple[str, ...]) -> None:
    requirement = one_requirement(HEAD + "### R-001: One\nAcceptance criteria:\n" + written)

    assert requirement.acceptance_criteria == expected


@pytest.mark.parametrize(
    "description",
    [
        "Plain text.",
        "Two\n\nparagraphs\n\n***\n\nand a rule.",
        "#### Details\n\nA deeper heading.",
        "Dependencies are listed elsewhere.",
        "The few\ndependencies: only the standard library.",
        "- a list\n\n> and a quote\nthat runs on",
        "    Acceptance criteria:\n    - in code",
        "<!-- Dependencies: R-999 -->",
        "| a | b |\n|---|---|",
        "[reference]: https://example.org",
    ],
)
@pytest.mark.parametrize("order", ["{text}\n\n{criteria}", "{criteria}\n\n{text}"])
def test_a_description_is_kept_as_it_is_above_or_below_the_criteria(description: str, order: str) -> None:
    criteria = "**Acceptance criteria:**\n\n- c\n\n**Dependencies:** none"

    requirement = one_requirement(HEAD + "### R-001: One\n" + order.format(text=description, criteria=criteria))

    assert requirement.description == description


def test_a_long_chain_and_a_diamond_of_dependencies_are_no_circle() -> None:
    needs = {2: "R-001", 3: "R-001", 4: "R-002, R-003", 5: "R-004, R-001"}
    text = HEAD + ONE + "".join(f"### R-00{n}: t\n{CRITERIA}Dependencies: {ids}\n" for n, ids in needs.items())

    assert [requirement.depends_on for requirement in parse_spec(text).requirements] == [
        (),
        ("R-001",),
        ("R-001",),
        ("R-002", "R-003"),
        ("R-004", "R-001"),
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", "line 1: the spec is empty; write a spec, beginning with its front matter between two lines of ---"),
        (
            b" \r\n\t",
            "line 1: the spec is empty; write a spec, beginning with its front matter between two lines of ---",
        ),
        ("x" * (SPEC_BYTES_MAX + 1), f"line 1: the spec is larger than 1,048,576 bytes; {FIX_SIZE}"),
        ("é" * (SPEC_BYTES_MAX // 2 + 1), f"line 1: the spec is larger than 1,048,576 bytes; {FIX_SIZE}"),
        ("x\n" * (SPEC_LINES_MAX + 1), f"line 50001: the spec has more than 50,000 lines; {FIX_SIZE}"),
        (VALID.encode() + b"\xff", f"line 13: the spec is not UTF-8 text: byte {len(VALID)} is 0xFF; save it as UTF-8"),
        (VALID.encode("utf-16"), "line 1: the spec is not UTF-8 text: byte 0 is 0xFF; save it as UTF-8"),
        (VALID + "a\x00b\x01", "line 13: there is a control character (U+0000) in column 2; delete it"),
        (
            "\n" + SECTIONS + ONE,
            "line 2: there is no front matter; "
            "begin the spec with a line ---, then `id: …` and `title: …`, then another line ---",
        ),
        ("\n---\nid: a\n", "line 2: the front matter has no end; close it with a line ---"),
    ],
    ids=lambda value: None if isinstance(value, str) and len(value) < 200 else "source",
)
def test_what_cannot_be_read_as_text_in_lines_is_reported(source: str | bytes, expected: str) -> None:
    assert problems_of(source) == [expected]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("title: t", "line 1: the front matter has no id; add a line `id: my-project`"),
        ("id: a", "line 1: the front matter has no title; add a line `title: What it is called`"),
        ("ID: a\ntitle: t", "line 2: the front matter has “ID” but no id; did you mean id? write `id: my-project`"),
        (
            "id: a\n\ntitel: t",
            "line 4: the front matter has “titel” but no title; did you mean title? write `title: What it is called`",
        ),
        (
            "title: t\nid: My Project",
            "line 3: “My Project” cannot be an id; "
            "use 1 to 64 of a-z, 0-9, - and _, beginning with a letter or a digit",
        ),
        ("id: a\ntitle: ''", "line 3: the title is empty; write `title: What it is called`"),
        ("id: a\ntitle: t\nid: b", "line 4: the key “id” is there twice, first on line 2; delete one of the two"),
        ("id: a\ntitle: t\n'?!': b", "line 4: “?!” cannot be a key; use up to 64 letters, digits, spaces and . _ -"),
        ("id: a\ntitle: t\nx: [b]", f"line 4: the front matter has a list; {FIX_PLAIN}"),
        ("id: [a]\ntitle: t", f"line 2: the front matter has a list; {FIX_PLAIN}"),
        ("id: a\ntitle: t\nx:\n  - b", f"line 5: the front matter has a list; {FIX_PLAIN}"),
        ("id: a\ntitle:\n  x: b", f"line 4: the front matter has a nested mapping; {FIX_PLAIN}"),
        ("id: a\ntitle: t\nx: *b", f"line 4: the front matter has an alias; {FIX_PLAIN}"),
        ("id: a\ntitle: t\nx: &b c", "line 4: the front matter has an anchor (“&b”); delete it"),
        ("id: a\ntitle: t\nx: !b c", "line 4: the front matter has a tag (“!b”); delete it: every value is text"),
        ('id: a\ntitle: t\nx: "\\0"', "line 4: a value has a control character (U+0000); delete its escape"),
        (
            "- id: a",
            "line 2: the front matter cannot be read as YAML: “it is not a list of `key: value` lines”; " + FIX_YAML,
        ),
        (
            "id: a\ntitle: t: u",
            "line 3: the front matter cannot be read as YAML: “mapping values are not allowed here”; " + FIX_YAML,
        ),
        (
            "id: a\n...\n--- b",
            "line 4: the front matter cannot be read as YAML: “a second YAML document begins here”; " + FIX_YAML,
        ),
        (
            'id: a\nx: "\\UFFFFFFFF"\ny: b',
            "line 3: the front matter cannot be read as YAML: “there is no such character”; " + FIX_YAML,
        ),
        (
            "id: a\nx: \ufffe",
            "line 3: the front matter cannot be read as YAML: “special characters are not allowed”; " + FIX_YAML,
        ),
        (
            "id: a\ntitle: " + "t" * FRONT_MATTER_BYTES_MAX,
            "line 1: the front matter is larger than 16,384 bytes; "
            "keep short facts there and move longer text into a section",
        ),
    ],
)
def test_every_problem_of_the_front_matter_is_reported(lines: str, expected: str) -> None:
    assert problems_of(with_front_matter(lines)) == [expected]


@pytest.mark.parametrize("lines", ["", "# nothing yet", "{}"])
def test_front_matter_with_nothing_in_it_lacks_both_its_keys(lines: str) -> None:
    assert problems_of(with_front_matter(lines)) == [
        "line 1: the front matter has no id; add a line `id: my-project`",
        "line 1: the front matter has no title; add a line `title: What it is called`",
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "Hello.\n" + SECTIONS + ONE,
            "line 5: there is text above the first section; move it into a section, for example below `## Vision`",
        ),
        (SECTIONS + ONE + "## \nx\n", "line 13: there is a heading without words; give it a name or delete it"),
        (
            SECTIONS + ONE + "## scope\nx\n",
            "line 13: there is a second section “Scope”; the first is on line 7; "
            "put their texts together under one heading",
        ),
        (
            "## Vision\n\n" + SECTIONS.removeprefix("## Vision\nv\n") + ONE,
            "line 5: the section Vision is empty; "
            "say what this is for and who will be glad of it, in text that no heading of level 1 or 2 cuts off",
        ),
        (
            "## Vision\nv\n## Scope\n## Requirements\n" + ONE,
            "line 7: the section Scope is empty; "
            "say what is part of it and what is not, in text that no heading of level 1 or 2 cuts off",
        ),
        (
            "## Scope\ns\n## Requirements\n" + ONE + "\n\n",
            "line 10: there is no section Vision; "
            "add a heading `## Vision` and below it what this is for and who will be glad of it",
        ),
        (
            "## Vision\nv\n## Scope\ns\n## Wishes\n" + ONE,
            "line 12: there is no section Requirements; "
            "add a heading `## Requirements` and below it one heading `### R-001: Title` for each requirement",
        ),
        (
            "## Visoin\nv\n## Scope\ns\n## Requirements\n" + ONE,
            "line 5: there is a heading “Visoin” but no section Vision; "
            "did you mean Vision? write the heading as `## Vision`",
        ),
        (
            "## Vision\nv\n### Scope\ns\n## Requirements\n" + ONE,
            "line 7: there is a heading “Scope” but no section Scope; "
            "did you mean Scope? write the heading as `## Scope`",
        ),
        (
            SECTIONS + ONE + "## Notes\n" + TWO,
            f"line 14: “R-002: Two” stands outside the section Requirements; {FIX_STRAY}",
        ),
        (
            SECTIONS + ONE + "## R-002: Two\n",
            f"line 13: “R-002: Two” stands outside the section Requirements; {FIX_STRAY}",
        ),
        (
            SECTIONS + ONE + "## Notes\n\n```\ncode\n",
            "line 15: the code block that begins here has no end; close it with a line ```",
        ),
        (
            SECTIONS + ONE + "## Notes\n\n<!-- a comment\n",
            "line 15: the HTML that begins here has no end; "
            "close it (a comment with -->), or write &lt; for a < that is meant as text",
        ),
        (
            SECTIONS + ONE + "## Notes\n\n" + "- " * 10 + "x\n",
            "line 15: lists or quotes are nested more than 9 deep; write it with fewer levels",
        ),
    ],
)
def test_every_problem_of_the_sections_is_reported(body: str, expected: str) -> None:
    assert problems_of(FRONT + body) == [expected]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "",
            "line 9: there are no requirements; add a heading `### R-001: Title` for each thing that has to be true",
        ),
        (
            "We want:\n" + ONE,
            "line 10: there is text in Requirements that belongs to no requirement; "
            "move it into Scope, or into the description of a requirement",
        ),
        (
            ONE + "### Later\nx\n",
            f"line 13: “Later” is not a requirement; {FIX_HEADING}; "
            "if it is part of the requirement above, make it a deeper heading (####)",
        ),
        (f"### R-001 One\n{CRITERIA}", f"line 10: “R-001 One” is not the heading of a requirement; {FIX_HEADING}"),
        (f"### R-001:\n{CRITERIA}", f"line 10: “R-001:” is not the heading of a requirement; {FIX_HEADING}"),
        (f"### R-01: One\n{CRITERIA}", f"line 10: “R-01: One” is not the heading of a requirement; {FIX_HEADING}"),
        (f"### r-001: One\n{CRITERIA}", f"line 10: “r-001: One” is not the heading of a requirement; {FIX_HEADING}"),
        (
            f"### R-1234567890: One\n{CRITERIA}",
            f"line 10: “R-1234567890: One” is not the heading of a requirement; {FIX_HEADING}",
        ),
        ("### R-001: One\nText.\n", f"line 10: R-001 has no acceptance criteria; {FIX_CRITERIA}"),
        (
            "### R-001: One\nAcceptance criteria: it works\n",
            f"line 11: Acceptance criteria is not followed by a list; {FIX_CRITERIA}",
        ),
        (
            "### R-001: One\nText.\n\nAcceptance criteria:\n",
            f"line 13: Acceptance criteria is not followed by a list; {FIX_CRITERIA}",
        ),
        (
            ONE + "\n" + CRITERIA,
            "line 14: there is a second Acceptance criteria in one requirement; the first is on line 11; "
            "put the two together",
        ),
        (
            ONE + "Dependencies: none\nDependencies: none\n",
            "line 14: there is a second Dependencies in one requirement; the first is on line 13; put the two together",
        ),
        (
            "### R-001: One\nText.\n\n" + CRITERIA + "\nMore text.\n",
            "line 16: there is text below the acceptance criteria or dependencies, apart from the description; "
            "move it up into the description",
        ),
        (
            ONE + "- ***\n",
            "line 13: there is an acceptance criterion without words; say what has to be true, or delete it",
        ),
        (
            ONE + "- [ ]\n",
            "line 13: there is an acceptance criterion without words; say what has to be true, or delete it",
        ),
        (
            ONE + "- > It works.\n",
            "line 13: an acceptance criterion begins with the marker of another list or quote; begin it with words",
        ),
        (ONE + "- Dependencies: none\n", f"line 13: there is a label inside a list; {FIX_HIDDEN}"),
        (ONE + "- x\n  **Dependencies:** R-001\n", f"line 14: there is a label inside a list; {FIX_HIDDEN}"),
        (ONE + "\n> Dependencies: R-001\n", f"line 14: there is a label inside a quote; {FIX_HIDDEN}"),
        (
            ONE + "Dependencies:\n",
            "line 13: Dependencies says nothing; "
            "name the requirements it needs, as in `Dependencies: R-001, R-002`, or write `none`",
        ),
        (
            ONE + "\nDependencies: the database\n",
            f"line 14: “the database” among the dependencies is no requirement's id; {FIX_IDS}",
        ),
        (
            ONE + "Dependencies:\n- none\n- R-002\n" + TWO,
            f"line 14: “none” among the dependencies is no requirement's id; {FIX_IDS}",
        ),
    ],
)
def test_every_problem_of_a_requirement_is_reported(body: str, expected: str) -> None:
    assert problems_of(HEAD + body) == [expected]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            ONE + ONE,
            ["line 13: R-001 is there twice, first on line 10; give each requirement an id of its own"],
        ),
        (
            ONE + ONE + ONE,
            [
                "line 13: R-001 is there twice, first on line 10; give each requirement an id of its own",
                "line 16: R-001 is there twice, first on line 10; give each requirement an id of its own",
            ],
        ),
        (
            ONE + "Dependencies: R-001\n",
            ["line 13: R-001 depends on itself; take it out of its own dependencies"],
        ),
        (
            ONE + "Dependencies:\n- R-002\n- R-2000\n" + TWO,
            ["line 15: R-001 depends on R-2000, which does not exist; correct the id, or add a requirement R-2000"],
        ),
        (
            ONE + TWO + "Dependencies: R-001 R-001\n",
            ["line 16: R-001 is named twice as a dependency; name it once"],
        ),
    ],
)
def test_ids_and_dependencies_are_checked(body: str, expected: list[str]) -> None:
    assert problems_of(HEAD + body) == expected


def test_a_wrong_heading_does_not_make_its_id_unknown_to_others() -> None:
    text = HEAD + f"### R-001 One\n{CRITERIA}" + TWO + "Dependencies: R-001\n"

    assert problems_of(text) == [f"line 10: “R-001 One” is not the heading of a requirement; {FIX_HEADING}"]


@pytest.mark.parametrize(
    ("needs", "circles"),
    [
        pytest.param({1: [2], 2: [1]}, [[1, 2, 1]], id="two"),
        pytest.param({1: [2], 2: [3], 3: [1]}, [[1, 2, 3, 1]], id="three"),
        pytest.param({1: [3], 2: [1], 3: [2]}, [[1, 3, 2, 1]], id="against the text"),
        pytest.param({1: [], 2: [1, 4], 3: [2], 4: [3]}, [[2, 4, 3, 2]], id="not from the first"),
        pytest.param({1: [2], 2: [1], 3: [4], 4: [3]}, [[1, 2, 1], [3, 4, 3]], id="two circles"),
        pytest.param({1: [2], 2: [3, 1], 3: [4], 4: [3], 5: [1, 4]}, [[1, 2, 1], [3, 4, 3]], id="one leads to another"),
        pytest.param({1: [2, 3], 2: [1], 3: [1]}, [[1, 2, 1]], id="two that have one in common"),
        pytest.param({n: [n % 50 + 1] for n in range(1, 51)}, [[*range(1, 51), 1]], id="fifty"),
    ],
)
def test_every_circle_is_named_in_full(needs: dict[int, list[int]], circles: list[list[int]]) -> None:
    ids = {number: ", ".join(f"R-{need:03}" for need in needed) or "none" for number, needed in needs.items()}
    text = "".join(f"### R-{number:03}: t\n{CRITERIA}Dependencies: {ids[number]}\n" for number in needs)

    assert problems_of(HEAD + text) == [
        f"line {9 + 4 * circle[0]}: requirements depend on one another in a circle: "
        f"{' → '.join(f'R-{number:03}' for number in circle)}; take one of these dependencies away"
        for circle in circles
    ]


def test_all_problems_are_reported_at_once_in_the_order_of_their_lines() -> None:
    text = """---
id: Not An Id
titel: t
---
## Vision
## Requirements
### R-001: One
Dependencies: R-002, R-009
### R-002: Two\x07
Acceptance criteria:
- [ ]
Dependencies: R-001
### R-002 Again
Acceptance criteria:
- Yes.
"""

    assert [re.sub(r";.*", "", problem) for problem in problems_of(text)] == [
        "line 2: “Not An Id” cannot be an id",
        "line 3: the front matter has “titel” but no title",
        "line 5: the section Vision is empty",
        "line 7: R-001 has no acceptance criteria",
        "line 8: R-001 depends on R-009, which does not exist",
        "line 8: requirements depend on one another in a circle: R-001 → R-002 → R-001",
        "line 9: there is a control character (U+0007) in column 15",
        "line 11: there is an acceptance criterion without words",
        "line 13: “R-002 Again” is not the heading of a requirement",
        "line 13: R-002 is there twice, first on line 9",
        "line 15: there is no section Scope",
    ]


def test_what_was_found_before_an_unreadable_end_is_reported_with_it() -> None:
    problems = problems_of("---\nid: A\ntitle: t\n---\n## Vision\n```\n")

    assert [problem.partition(":")[0] for problem in problems] == ["line 2", "line 6"]


def test_line_numbers_are_the_same_for_every_kind_of_line_end_and_none_is_made_up() -> None:
    text = HEAD.replace("v\n", "v\u2028w\x0bx\n").replace("title: Demo", "title: 'De\u2028 mo'") + ONE + "- [ ]\n"

    by_line_end = [problems_of(text.replace("\n", end)) for end in ("\n", "\r\n", "\r")]

    assert by_line_end[0] == [
        "line 6: there is a control character (U+000B) in column 4; delete it",
        "line 13: there is an acceptance criterion without words; say what has to be true, or delete it",
    ]
    assert by_line_end[1:] == by_line_end[:1] * 2


def test_the_error_itself_tells_the_first_problems_and_how_many_more_there_are() -> None:
    text = HEAD + "".join(f"### R-{n:03}: t\n" for n in range(1, PROBLEMS_SHOWN_MAX + 4))

    with pytest.raises(SpecError) as raised:
        parse_spec(text)

    lines = str(raised.value).splitlines()
    assert len(raised.value.problems) == PROBLEMS_SHOWN_MAX + 3
    assert lines[0] == f"line 10: R-001 has no acceptance criteria; {FIX_CRITERIA}"
    assert lines[-1] == "and 3 more"
    assert len(lines) == PROBLEMS_SHOWN_MAX + 1


def test_a_spec_whose_canonical_text_would_be_too_large_is_refused() -> None:
    tight = VALID + "- c\n" * (SPEC_LINES_MAX - 13)
    quotes = "id: a\ntitle: t\nx: '" + '"' * (FRONT_MATTER_BYTES_MAX - 100) + "'"

    assert problems_of(tight) == [
        "line 1: the spec is larger than 1,048,576 bytes or 50,000 lines when it is written out in full; " + FIX_SIZE
    ]
    assert problems_of(with_front_matter(quotes)) == [
        "line 1: the front matter is larger than 16,384 bytes; "
        "keep short facts there and move longer text into a section"
    ]


def test_the_canonical_text_is_what_a_person_would_write() -> None:
    text = (ROOT / "examples" / "todo.md").read_text(encoding="utf-8")

    title = "# A to-do list for the command line\n\n"
    assert render_spec(parse_spec(text)) == text.replace(title, "")


def documentation() -> dict[str, str]:
    """The fenced blocks of docs/spec.md by the order and kind in which they stand there."""
    text = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^(`{3,})(\w+)\n(.*?)^\1$", text, re.MULTILINE | re.DOTALL)
    assert [kind for _, kind, _ in blocks] == ["markdown", "markdown", "console"]
    return dict(zip(("example", "wrong", "output"), (block for _, _, block in blocks), strict=True))


def test_the_documentation_s_example_is_a_valid_spec() -> None:
    spec = parse_spec(documentation()["example"])

    assert (spec.id, spec.title, spec.metadata) == ("greeter", "A greeter for the command line", {"owner": "Ada"})
    assert [(each.id, len(each.acceptance_criteria), each.depends_on) for each in spec.requirements] == [
        ("R-001", 2, ()),
        ("R-002", 2, ("R-001",)),
    ]
    assert spec.extra == {"Open questions": "Which languages come first?"}
    assert parse_spec(render_spec(spec)) == spec


def test_the_documentation_s_wrong_example_has_the_problems_shown() -> None:
    blocks = documentation()

    with pytest.raises(SpecError) as raised:
        parse_spec(blocks["wrong"])

    assert blocks["output"].splitlines()[1:-1] == [
        f"greeter.md:{problem.line}: {problem.what}: {problem.fix}" for problem in raised.value.problems
    ]


def test_the_documentation_names_the_limits() -> None:
    text = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")

    limits = [SPEC_BYTES_MAX, SPEC_LINES_MAX, FRONT_MATTER_BYTES_MAX]
    assert [f"{limit:,}" for limit in limits if f"{limit:,}" not in text] == []


def test_lists_may_be_nested_as_deep_as_the_documentation_says() -> None:
    spec = parse_spec(VALID.replace("\nv\n", "\n" + "- " * 9 + "v\n"))

    assert spec.vision == "- " * 9 + "v"
