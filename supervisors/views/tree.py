"""The tree: who watches over whom, with phases, processes, restarts and budgets."""

from collections.abc import Iterator

from rich.text import Text
from rich.tree import Tree

from bus.cli.output import counted, moment, one_line
from supervisors.core.standing import ChildStanding, Standing, SupervisorStanding
from supervisors.views.words import on_child

_STYLES = {"ready": "green", "starting": "yellow", "stopping": "yellow", "down": "red", "over": "red"}
_INDENT = "  "


def draw(standing: Standing) -> list[Tree]:
    """For a terminal."""
    return [_branch(standing, root) for root in standing.supervisors if not root.parent]


def _branch(standing: Standing, supervisor: SupervisorStanding) -> Tree:
    tree = Tree(_label(supervisor))
    for below in _below(standing, supervisor.name):
        tree.add(_label(below) if isinstance(below, ChildStanding) else _branch(standing, below))
    return tree


def _label(one: ChildStanding | SupervisorStanding) -> Text:
    return Text.assemble(
        (one_line(one.name), "bold"), "  ", (one.phase, _STYLES[one.phase]), "  ", ", ".join(facts_of(one))
    )


def lines(standing: Standing) -> Iterator[str]:
    """For anything else."""
    for root in standing.supervisors:
        if not root.parent:
            yield from _lines(standing, root, 0)


def _lines(standing: Standing, one: ChildStanding | SupervisorStanding, depth: int) -> Iterator[str]:
    yield f"{_INDENT * depth}{one_line(one.name)}  {one.phase}  {', '.join(facts_of(one))}".rstrip()
    if isinstance(one, SupervisorStanding):
        for below in _below(standing, one.name):
            yield from _lines(standing, below, depth + 1)


def _below(standing: Standing, name: str) -> Iterator[ChildStanding | SupervisorStanding]:
    """Processes, then supervisors: the standing has an order among each, not between them."""
    yield from (child for child in standing.children if child.supervisor == name)
    yield from (supervisor for supervisor in standing.supervisors if supervisor.parent == name)


def facts_of(one: ChildStanding | SupervisorStanding) -> Iterator[str]:
    """All that is known of one, beside its phase."""
    if isinstance(one, SupervisorStanding):
        yield one.strategy
        yield f"{one.failures} of {counted(one.failures_max, 'failure')} in {one.failures_seconds:g} s"
        return
    if one.runs != one.name:
        yield one_line(one.runs)
    if one.pid:
        yield f"pid {one.pid}"
    if one.since:
        yield f"since {moment(one.since)}"
    if one.restart != "permanent":
        yield one.restart
    if one.failures:
        yield counted(one.failures, "failure")
    yield from on_child(one)
