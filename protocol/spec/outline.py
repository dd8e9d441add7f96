"""The outline of a markdown text: its outermost blocks, each with its lines.

markdown-it decides what is a heading and what only looks like one (in a code block, a quote, a comment). What is
inside a paragraph, and the insides of lists and quotes, are of no interest here and are not kept. Two rules are added
to markdown's own: a label begins a new block, so that it needs no empty line above it, and a quote ends with the last
line that has its >.
"""

import re
from typing import Literal, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, paragraph
from markdown_it.rules_block.html_block import HTML_SEQUENCES
from markdown_it.token import Token

from protocol.spec.labels import is_surely_label, read_label
from protocol.spec.problems import Problems
from protocol.spec.source import BLANK

NESTING_MAX = 20  # A list counts two, itself and its item; a quote counts one.

_FENCE_END = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*")
_KINDS: dict[str, "Kind"] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "blockquote_open": "quote",
    "hr": "rule",
}

Kind = Literal["heading", "paragraph", "list", "quote", "rule", "other"]


class Block(NamedTuple):
    """An outermost block on lines `first` to `end` (not included). `text` and `level` are a heading's, on one line.

    `items` are a list's, each with its own first line and end.
    """

    kind: Kind
    first: int
    end: int
    level: int
    text: str
    items: list[tuple[int, int]]


def _begin_label(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A block rule. `silent` asks whether this line ends the paragraph above it."""
    line = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    if silent:
        is_outside = state.level == 0 or state.sCount[start] < state.blkIndent
        return is_outside and is_surely_label(line)
    # As a paragraph it cannot become a heading by a line --- below it, which is there to part two requirements.
    return state.level == 0 and read_label(line) is not None and paragraph(state, start, end, False)


def _end_quote(_state: StateBlock, _start: int, _end: int, silent: bool) -> bool:
    """A block rule that only ends quotes. markdown-it looks far ahead for lines that go on without >, and if it then
    uses few of them it looks again, so that the time grows with the square of the text."""
    return silent


def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"maxNesting": NESTING_MAX})
    markdown.block.ruler.before("lheading", "label", _begin_label, {"alt": ["paragraph"]})
    markdown.block.ruler.before("lheading", "quote_end", _end_quote, {"alt": ["blockquote"]})
    # A link definition would give no block at all, and takes long to recognise where a text is made for that.
    return markdown.disable("reference")


_MARKDOWN = _markdown()


class _TooDeepError(Exception):
    """Beyond this depth markdown-it passes over the rest of the text without a word."""


class _Outline(StateBlock):
    """Keeps the tokens that become blocks, and not the many more that a text of nothing but markers can have."""

    def __init__(self, text: str) -> None:
        super().__init__(text, _MARKDOWN, {}, [])
        self._passed_over = Token("", "", 0)

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        if nesting < 0:
            self.level -= 1
            return self._passed_over
        token = self._passed_over
        if self.level == 0 or (self.level == 1 and ttype in ("inline", "list_item_open")):
            token = Token(ttype, tag, nesting, level=self.level)
            self.tokens.append(token)
        self.level += nesting
        if self.level >= NESTING_MAX and ttype in ("list_item_open", "blockquote_open"):
            raise _TooDeepError
        return token


def outline(lines: list[str], start: int, problems: Problems) -> list[Block]:
    """The blocks of `lines[start:]`. Raises for a text whose blocks cannot be told apart to its end."""
    state = _Outline("".join(f"{line}\n" for line in lines[start:]))
    try:
        _MARKDOWN.block.tokenize(state, 0, state.lineMax)
    except _TooDeepError:
        what = f"lists or quotes are nested more than {NESTING_MAX // 2 - 1} deep"
        problems.stop(start + state.line, what, "write it with fewer levels")
    blocks: list[Block] = []
    for token in state.tokens:
        _add_token(blocks, token, start, lines, problems)
    return blocks


def _add_token(blocks: list[Block], token: Token, start: int, lines: list[str], problems: Problems) -> None:
    assert token.map is not None
    first, end = token.map[0] + start, token.map[1] + start
    if token.type == "list_item_open":
        blocks[-1].items.append((first, end))
    elif token.type == "inline":
        if blocks[-1].kind == "heading":
            blocks[-1] = blocks[-1]._replace(text=_on_one_line(token.content))
    else:
        kind = _KINDS.get(token.type, "other")
        _check_closed(token, lines[first], lines[end - 1] if end - first > 1 else "", first, problems)
        blocks.append(Block(kind, first, end, int(token.tag[1]) if kind == "heading" else 0, "", []))


def _on_one_line(content: str) -> str:
    return " ".join(line.strip() for line in content.split("\n")).strip()


def _check_closed(token: Token, opening: str, last: str, index: int, problems: Problems) -> None:
    """Refuse what is open to the end of the text: whatever comes to stand below it would become part of it."""
    if token.type == "fence" and not _closes_fence(token.markup, last):
        fix = f"close it with a line {token.markup}"
        problems.stop(index, "the code block that begins here has no end", fix)
    if token.type == "html_block" and not _closes_html(opening.lstrip(BLANK), last):
        fix = "close it (a comment with -->), or write &lt; for a < that is meant as text"
        problems.stop(index, "the HTML that begins here has no end", fix)


def _closes_fence(markup: str, last: str) -> bool:
    closing = _FENCE_END.fullmatch(last)
    return closing is not None and closing.group(1).startswith(markup)


def _closes_html(opening: str, last: str) -> bool:
    _, closing, _ = next(sequence for sequence in HTML_SEQUENCES if sequence[0].search(opening))
    ends_at_blank_line = closing.search("") is not None
    return ends_at_blank_line or closing.search(opening) is not None or closing.search(last.lstrip(BLANK)) is not None
