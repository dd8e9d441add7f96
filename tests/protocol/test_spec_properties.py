"""Whatever the text: a spec or its own error; and a spec's canonical text always gives the same spec."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import SpecError
from protocol.spec import Requirement, Spec, SpecProblem, parse_spec, render_spec

quick = settings(max_examples=200, deadline=None, print_blob=True)

# Markdown that only looks like a heading, a label or an end, and everything else that could run into what follows.
BLOCKS = [
    "Plain text.",
    "Two lines,\n   the second of them indented.",
    "Spaces at the end  \nand a backslash\\",
    "日本語, ünï¢ödé, a line\u2028separator and a no-break\u00a0space",
    "    indented code\n\n    ## Scope",
    "\ttab code",
    "```\n## Scope\n### R-999: inside a code block\n```",
    "~~~~ markdown\n---\n~~~\nDependencies: R-999\n~~~~~",
    "<!-- ## Vision -->",
    "<!--\n\n## Vision\n-->",
    "<div>\n## Not a heading\n</div>",
    "<span>\nAcceptance criteria:",
    "> A quote\n> ## Scope\nand its lazy end",
    "- item\n  - nested\n\n        code",
    "- ```\n  never closed inside its item",
    "* <!-- nor is this\n\n  ## Vision",
    "1. one\n2. two",
    "2) second",
    "***",
    "##### A deeper heading ##",
    "###### Deepest #\\#",
    "##not a heading",
    "\\# nor this",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "[reference]: https://example.org 'title'",
    "Our few\ndependencies: only the standard library.\nThat is all.",
    "The acceptance criteria are below.",
    "[ ] not a task",
    "====",
]
CRITERIA = [
    "It works.",
    "[ ] unticked",
    "[x] [ ] ticked and unticked",
    "two\nlines",
    "three\n   lines, indented\n\n and a gap",
    "with a list:\n- a\n  - b\n1. c",
    "with code:\n\n```\n## Vision\n\n\tx\n```",
    "never closed:\n~~~\n### R-999: x",
    "# looks like a heading\n===",
    "[link](x)",
    "`code`",
    "<!-- a comment -->",
    "✓",
    "---> arrow",
    "a\n---\nb",
]
FRONT_MATTER_NOISE = [
    *("id: a", "title: b", "# c", "a: &x [1]", "b: *x", "? c", "? [c]\n: d", "...", "--- d", "e: |\n  f\n\n  g", "%o"),
    *('h: "\\u2028"', 'i: "\\ud800"', 'i: "\\UFFFFFFFF"', "j: 'k\n  l'", "x: >-\n y", '"m": "\\0"', "n: {", "o: [[[["),
    *("!p q: r", "- {s: t}", "'u\" v': w", ": x", "y:", "y: z: z", "\u2028: 1", "a\u2028b: c\u2028 d", "\ufeff", "{"),
]
NOISE = [
    *("", " ", "\t", "---", "===", "```", "~~~~", "   ```", "    ```", "- ```", "* * *", "-", "- -", "- ", "*", "* b"),
    *(
        "- a",
        "  - a",
        "+ c",
        "1. d",
        "2) e",
        "   f",
        "      g",
        "-     code",
        "-\tt",
        "- [ ] x",
        "- [ ]",
        "[x]",
        "lazy",
    ),
    *("- [ ] - - - - - - - - - - x", "-     > > > > > > > > > > > > > > > > > > > > x", "> q", ">", "> - r", "\t- h"),
    *("<!--", "-->", "<div>", "<pre>", "</pre>", "<?", "<a b='", "- <!--", "[a]: b", "[a]:", "#", "##", "## #", "# x"),
    *("## Vision", "# scope", "SCOPE\n-----", "# Requirements", "## requirements ##", "## Notes", "# Notes", "### N"),
    *("#### Notes", "### R-001: x", "## R-002: y", "###### R-003: # #", "### R-004:z#", "R-005: u\nv\n-", "### R-1: w"),
    *("**Acceptance criteria**", "Acceptance criteria:", "#### acceptance criteria", "__Acceptance Criteria:__ x"),
    *("Acceptance criteria", "- Acceptance criteria:", "1. x\n  Acceptance criteria:", "Acceptance criteria\n==="),
    *("Dependencies: R-001", "**Dependencies:** none", "Dependencies:", "Dependencies", "    Dependencies:", "- R-001"),
    *("R-001, R-002", "none", "#### Depends on", "dependency: what", "> Dependencies: R-001", "   Depends on: R-001"),
    *("- [x] Dependencies: none", "-     Dependencies:", "-\n  Dependencies", "- y\n\n  z\n Dependencies: [R-001]"),
    *("Depends on: none\n---", "Dependencies\n===", "> - q\nDependencies: none", "- > r\n  s", "> > t\n> u\nSCOPE\n-"),
    *("\u2028", "\x85", "a\x00", "\ud800"),
    *FRONT_MATTER_NOISE,
]
SECTIONS = {"vision", "scope", "requirements"}


def check(source: str | bytes) -> Spec | None:
    """The property of every text; returns the spec if there is one."""
    try:
        spec = parse_spec(source)
    except SpecError as error:
        check_problems(error.problems)
        return None
    rendered = render_spec(spec)
    assert parse_spec(rendered) == spec
    assert render_spec(parse_spec(rendered)) == rendered
    assert parse_spec(rendered.encode()) == spec
    assert msgspec.json.decode(msgspec.json.encode(spec), type=Spec) == spec
    return spec


def check_problems(problems: tuple[SpecProblem, ...]) -> None:
    lines = [problem.line for problem in problems]
    assert lines
    assert lines == sorted(lines)
    assert lines[0] >= 1
    assert all(problem.what and problem.fix for problem in problems)
    assert msgspec.json.decode(msgspec.json.encode(problems), type=tuple[SpecProblem, ...]) == problems


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12)
names = (
    st.one_of(words, st.sampled_from(["#", "a #", "# #", "x ##", "\\#", "`R-001`", "Visions", "[a](b)"]))
    .map(str.strip)
    .filter(lambda name: name and name.lower() not in SECTIONS and not name.startswith("R-"))
)


def texts(pieces: list[str], min_size: int = 0) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), min_size=min_size, max_size=4).map("\n\n".join)


@st.composite
def list_items(draw: st.DrawFn, contents: list[str]) -> str:
    """A list in any style; the lines of an item are indented as far as its marker asks."""
    marker = draw(st.sampled_from(["-", "*", "+", "1.", "23)"]))
    lead = draw(st.sampled_from(["", " ", "   "])) + marker + draw(st.sampled_from([" ", "  ", "    "]))
    gap = draw(st.sampled_from(["\n", "\n\n", "\n \n\n"]))
    return gap.join(lead + content.replace("\n", "\n" + " " * len(lead)) for content in contents)


def dependencies_of(ids: list[str]) -> list[str]:
    """Ways to write the same dependencies."""
    if not ids:
        return ["", "Dependencies: none", "#### Dependencies\n\nNone.", "**Dependencies**\n* none"]
    listed = "\n".join(f"- {name}" for name in ids)
    return [f"Depends on: {', '.join(ids)}", f"__Dependencies:__\n{listed}", f"##### Dependencies\n{' and '.join(ids)}"]


@st.composite
def requirements(draw: st.DrawFn, number: int, hashes: str) -> str:
    """A requirement with its parts in any order; what it depends on stands above it."""
    heading = f"{hashes} R-{number:03}{draw(st.sampled_from([':', ' : ', ':  ']))}{draw(names)} {hashes}"
    label = draw(st.sampled_from(["**Acceptance criteria**", "Acceptance criteria:", "#### ACCEPTANCE CRITERIA"]))
    items = draw(list_items(draw(st.lists(st.sampled_from(CRITERIA), min_size=1, max_size=4))))
    needs = draw(st.sets(st.integers(1, number - 1))) if number > 1 else ()
    labelled = [f"{label}\n\n{items}", draw(st.sampled_from(dependencies_of([f"R-{need:03}" for need in needs])))]
    gap = draw(st.sampled_from(["\n", "\n\n"]))
    parts = [draw(texts(BLOCKS)), gap.join(draw(st.permutations(labelled))), draw(st.sampled_from(["", "---"]))]
    return "\n\n".join([heading, *parts])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Valid specs of every shape."""
    hashes = draw(st.sampled_from(["#", "##"]))
    below = draw(st.sampled_from(["###", "####"] if hashes == "##" else ["##", "###"]))
    wanted = [draw(requirements(number, below)) for number in range(1, draw(st.integers(1, 4)) + 1)]
    sections = [
        f"{hashes} {draw(st.sampled_from(['Vision', 'VISION  ##']))}\n{draw(texts(BLOCKS, 1))}",
        f"{hashes} scope\n\n{draw(texts(BLOCKS, 1))}",
        "\n\n".join([f"{hashes} Requirements", *wanted]),
        *(f"{hashes} Extra {number}\n{draw(texts(BLOCKS))}" for number in range(draw(st.integers(0, 2)))),
    ]
    values = draw(st.dictionaries(st.sampled_from(["owner", "due by", "a.b", "ß"]), words))
    entries = [f"{key}: {msgspec.json.encode(value).decode()}" for key, value in values.items()]
    front = ["---", "id: a-1", "title: >", "  Some", "  title", *entries, "---"]
    title = draw(st.sampled_from(["# The title\n", "The title\n=========\n", ""]))
    return "\n".join([*front, title, "\n\n".join(draw(st.permutations(sections)))])


@st.composite
def near_documents(draw: st.DrawFn) -> str:
    """Valid specs with a few lines deleted, doubled, exchanged, indented or written between others."""
    lines = draw(documents()).split("\n")
    for _ in range(draw(st.integers(1, 6))):
        here, there = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["delete", "double", "exchange", "indent", "insert", "insert", "insert"])):
            case "delete" if len(lines) > 1:
                del lines[here]
            case "double":
                lines.insert(there, lines[here])
            case "exchange":
                lines[here], lines[there] = lines[there], lines[here]
            case "indent":
                lines[here] = draw(st.sampled_from([" ", "  ", "    ", "\t", "> ", "- "])) + lines[here]
            case _:
                lines.insert(here, draw(st.one_of(st.sampled_from(NOISE), words)))
    return draw(st.sampled_from(["\n", "\r\n", "\r"])).join(lines)


@st.composite
def documents_with_holes(draw: st.DrawFn) -> str:
    """Specs that are valid but for what is in their holes."""
    front = draw(st.lists(st.sampled_from(FRONT_MATTER_NOISE), max_size=2).map("\n".join))
    holes = [draw(st.lists(st.sampled_from(NOISE), max_size=size).map("\n".join)) for size in (1, 4, 4, 4, 2)]
    return (
        f"---\nid: a\ntitle: b\n{front}\n---\n## Vision\nv\n{holes[0]}\n## Scope\ns\n## Requirements\n### R-001: t\n"
        f"{holes[1]}\n\n**Acceptance criteria:**\n- a\n{holes[2]}\n### R-002: u\n"
        f"{holes[3]}\n\nAcceptance criteria:\n- b\n\n{holes[4]}"
    )


anything = st.one_of(
    st.text(st.characters(exclude_categories=[])),
    st.binary(),
    st.lists(st.sampled_from(NOISE)).map("\n".join),
)


@given(documents())
@quick
def test_every_valid_document_parses_and_its_canonical_text_is_the_same_spec(text: str) -> None:
    assert check(text) == parse_spec(text)


@given(near_documents())
@quick
def test_a_damaged_document_is_a_spec_or_has_problems(text: str) -> None:
    check(text)


@given(documents_with_holes())
@quick
def test_a_document_with_noise_in_it_is_a_spec_or_has_problems(text: str) -> None:
    check(text)


@given(anything)
@quick
def test_any_text_or_bytes_is_a_spec_or_has_problems(source: str | bytes) -> None:
    check(source)


@given(words, st.dictionaries(st.text(min_size=1), words), st.binary())
@quick
def test_any_front_matter_is_read_or_has_problems(title: str, values: dict[str, str], noise: bytes) -> None:
    lines = [f"{key}: {value}" for key, value in values.items()]
    rest = "## Vision\nv\n## Scope\ns\n## Requirements\n### R-001: t\nAcceptance criteria:\n- c"

    check("\n".join(["---", "id: a", f"title: {title}", *lines, "---", rest]))
    check(b"---\nid: a\ntitle: b\n" + noise + b"\n---\n" + rest.encode())


@given(names, words, st.dictionaries(names, st.sampled_from(BLOCKS), max_size=3))
@quick
def test_titles_values_and_headings_come_back_as_they_are(title: str, value: str, extra: dict[str, str]) -> None:
    requirement = Requirement(id="R-001", title=title, acceptance_criteria=("It works.",))
    spec = Spec(
        id="a",
        title="b",
        vision="v",
        scope="s",
        requirements=(requirement,),
        metadata={"note": value},
        extra=extra,
    )

    assert parse_spec(render_spec(spec)) == spec
