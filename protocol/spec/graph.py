"""Whether requirements can be told apart and be done in some order."""

from collections.abc import Iterator

from protocol.spec.problems import Problems
from protocol.spec.requirements import Draft


def check_graph(drafts: list[Draft], problems: Problems) -> None:
    """Report ids used twice, dependencies on nothing, on itself or named twice, and circles of them."""
    by_id = _check_unique([draft for draft in drafts if draft.id], problems)
    for draft in drafts:
        _check_named(draft, by_id, problems)
    for cycle in _cycles({name: _others(draft, by_id) for name, draft in by_id.items()}):
        _report_cycle(cycle, by_id, problems)


def _check_unique(drafts: list[Draft], problems: Problems) -> dict[str, Draft]:
    by_id: dict[str, Draft] = {}
    for draft in drafts:
        earlier = by_id.setdefault(draft.id, draft)
        if earlier is not draft:
            what = f"{draft.id} is there twice, first on line {earlier.line_index + 1}"
            problems.add(draft.line_index, what, "give each requirement an id of its own")
    return by_id


def _check_named(draft: Draft, by_id: dict[str, Draft], problems: Problems) -> None:
    seen: set[str] = set()
    for named in draft.content.depends_on:
        if named.id == draft.id:
            problems.add(named.line_index, f"{draft.id} depends on itself", "take it out of its own dependencies")
        elif named.id in seen:
            problems.add(named.line_index, f"{named.id} is named twice as a dependency", "name it once")
        elif named.id not in by_id:
            what = f"{draft.id or 'a requirement'} depends on {named.id}, which does not exist"
            problems.add(named.line_index, what, f"correct the id, or add a requirement {named.id}")
        seen.add(named.id)


def _others(draft: Draft, by_id: dict[str, Draft]) -> list[str]:
    return [named.id for named in draft.content.depends_on if named.id in by_id and named.id != draft.id]


def _cycles(needs: dict[str, list[str]]) -> Iterator[list[str]]:
    """Circles that have no requirement in common, and as many that no other circle could be added.

    A search in depth without recursion, because a chain of dependencies can be as long as the spec.
    """
    finished: set[str] = set()
    for start, wanted in needs.items():
        path = {} if start in finished else {start: iter(wanted)}
        while path:
            here, rest = next(reversed(path.items()))
            following = next((name for name in rest if name not in finished), None)
            if following is None:
                finished.add(here)
                path.popitem()
            elif following not in path:
                path[following] = iter(needs[following])
            else:
                backwards: list[str] = []
                while following in path:
                    backwards.append(path.popitem()[0])
                finished.update(backwards)
                yield backwards[::-1]


def _report_cycle(cycle: list[str], by_id: dict[str, Draft], problems: Problems) -> None:
    """Name the whole circle, beginning and ending with the requirement that stands first in the text."""
    start = min(range(len(cycle)), key=lambda position: by_id[cycle[position]].line_index)
    way = [*cycle[start:], *cycle[: start + 1]]
    first_step = next(named for named in by_id[way[0]].content.depends_on if named.id == way[1])
    what = f"requirements depend on one another in a circle: {' → '.join(way)}"
    problems.add(first_step.line_index, what, "take one of these dependencies away")
