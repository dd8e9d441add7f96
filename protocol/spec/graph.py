"""Whether requirements can be told apart and be done in some order."""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from protocol.spec.problems import Problems
from protocol.spec.requirements import Draft

CYCLES_NAMED_MAX = 10
CYCLE_IDS_SHOWN_MAX = 12


def check_graph(drafts: list[Draft], problems: Problems) -> None:
    """Report ids used twice, dependencies on nothing, on itself or named twice, and every circle of them."""
    by_id = _check_unique([draft for draft in drafts if draft.id], problems)
    for draft in drafts:
        _check_named(draft, by_id, problems)
    for cycle in _cycles(by_id):
        first = by_id[cycle[0]]
        on_the_way = next(named for named in first.content.depends_on if named.id == cycle[1])
        what = f"requirements depend on one another in a circle: {_drawn(cycle)}"
        problems.add(on_the_way.line_index, what, "take one of these dependencies away")


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


def _cycles(by_id: dict[str, Draft]) -> Iterator[list[str]]:
    """Circles that have no requirement in common; each begins and ends with the one that stands first in the text."""
    graph = {
        name: {named.id for named in draft.content.depends_on if named.id in by_id and named.id != name}
        for name, draft in by_id.items()
    }
    for _ in range(CYCLES_NAMED_MAX):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            # graphlib lists each before the one that depends on it, and the first again at the end.
            cycle = error.args[1][:0:-1]
            yield _from_first(cycle, by_id)
            involved = set(cycle)
            graph = {name: needs - involved for name, needs in graph.items() if name not in involved}
        else:
            return


def _from_first(cycle: list[str], by_id: dict[str, Draft]) -> list[str]:
    start = min(range(len(cycle)), key=lambda position: by_id[cycle[position]].line_index)
    return [*cycle[start:], *cycle[: start + 1]]


def _drawn(cycle: list[str]) -> str:
    hidden = len(cycle) - CYCLE_IDS_SHOWN_MAX
    if hidden > 1:
        half = CYCLE_IDS_SHOWN_MAX // 2
        cycle = [*cycle[:half], f"… {hidden} more …", *cycle[-half:]]
    return " → ".join(cycle)
