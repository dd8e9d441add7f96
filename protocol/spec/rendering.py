"""A spec's one canonical text. The spec is taken to be a valid one, as `parse_spec` returns it."""

import re

from protocol.spec.criteria import render_item
from protocol.spec.model import Requirement, Spec
from protocol.spec.source import FENCE

# Text that every YAML reader takes for text without quotes: it begins with a letter and has nothing that could be
# a mark of YAML's. The words are those that some readers take for a truth value or for nothing.
_PLAIN = re.compile(r"[^\W\d_](?:[\w ./()+-]*[\w./()+-])?")
_NOT_PLAIN = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"})
_ESCAPED = re.compile('["\\\\\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\uf8ff\ufeff\ufff0-\uffff\U000e0000-\U0010ffff]')


def render_spec(spec: Spec) -> str:
    """The canonical text of `spec`: parsing it gives `spec` again, and rendering that the same text."""
    parts = [
        render_front_matter(spec),
        _section("Vision", spec.vision),
        _section("Scope", spec.scope),
        "## Requirements",
        *(_requirement(requirement) for requirement in spec.requirements),
        *(_section(name, text) for name, text in spec.extra.items()),
    ]
    return "\n\n".join(parts) + "\n"


def render_front_matter(spec: Spec) -> str:
    """The front matter with the lines around it."""
    entries = {"id": spec.id, "title": spec.title, **spec.metadata}
    return "\n".join([FENCE, *(f"{_scalar(key)}: {_scalar(value)}" for key, value in entries.items()), FENCE])


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN:
        return text
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    return f"\\{character}" if character in '"\\' else f"\\U{ord(character):08X}"


def _section(name: str, text: str) -> str:
    heading = _heading(2, name)
    return f"{heading}\n\n{text}" if text else heading


def _heading(level: int, text: str) -> str:
    # Markdown drops number signs at the end of a heading, so a title that ends in one gets another to be dropped.
    return f"{'#' * level} {text}{' #' if text.endswith('#') else ''}"


def _requirement(requirement: Requirement) -> str:
    parts = [
        _heading(3, f"{requirement.id}: {requirement.title}"),
        requirement.description,
        "**Acceptance criteria:**",
        "\n".join(render_item(criterion) for criterion in requirement.acceptance_criteria),
    ]
    if requirement.depends_on:
        parts.append(f"**Dependencies:** {', '.join(requirement.depends_on)}")
    return "\n\n".join(part for part in parts if part)
