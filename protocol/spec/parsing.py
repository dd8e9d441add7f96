"""The one validator: text in, a Spec or every problem out."""

from protocol.spec.frontmatter import FrontMatter, check_front_matter_size, read_front_matter
from protocol.spec.graph import check_graph
from protocol.spec.model import SPEC_BYTES_MAX, SPEC_LINES_MAX, Requirement, Spec
from protocol.spec.outline import outline
from protocol.spec.problems import Problems
from protocol.spec.rendering import render_front_matter, render_spec
from protocol.spec.requirements import Draft, read_requirements
from protocol.spec.sections import REQUIREMENTS, SCOPE, VISION, Section, read_sections
from protocol.spec.source import FIX_SIZE, bytes_of, read_source


def parse_spec(source: str | bytes) -> Spec:
    """Read a spec. Raises SpecError with all that is wrong with it, and never anything else, whatever the text."""
    problems = Problems()
    text = read_source(source, problems)
    front_matter = read_front_matter(text, problems)
    sections = read_sections(outline(text.lines, text.body_start, problems), text.lines, problems)
    drafts = [
        draft
        for section in sections
        if section.name == REQUIREMENTS
        for draft in read_requirements(section.heading, section.blocks, text.lines, problems)
    ]
    check_graph(drafts, problems)
    problems.check()
    spec = _build(front_matter, {section.name: section for section in sections}, drafts, text.lines)
    _check_canonical_size(spec, problems)
    problems.check()
    return spec


def _build(front_matter: FrontMatter, sections: dict[str, Section], drafts: list[Draft], lines: list[str]) -> Spec:
    texts = {name: section.text(lines) for name, section in sections.items() if name != REQUIREMENTS}
    return Spec(
        id=front_matter.id,
        title=front_matter.title,
        vision=texts.pop(VISION),
        scope=texts.pop(SCOPE),
        requirements=tuple(_requirement(draft) for draft in drafts),
        metadata=front_matter.metadata,
        extra=texts,
    )


def _requirement(draft: Draft) -> Requirement:
    return Requirement(
        id=draft.id,
        title=draft.title,
        description=draft.content.description,
        acceptance_criteria=tuple(draft.content.acceptance_criteria),
        depends_on=tuple(named.id for named in draft.content.depends_on),
    )


def _check_canonical_size(spec: Spec, problems: Problems) -> None:
    """The canonical text can be longer than the person's (tabs, quotes, empty lines), and must be readable too."""
    check_front_matter_size(render_front_matter(spec), 0, problems)
    text = render_spec(spec)
    if bytes_of(text) > SPEC_BYTES_MAX or text.count("\n") > SPEC_LINES_MAX:
        size = f"{SPEC_BYTES_MAX:,} bytes or {SPEC_LINES_MAX:,} lines"
        problems.add(0, f"the spec is larger than {size} when it is written out in full", FIX_SIZE)
