"""A machine for people and programs to read: diagram, table, page and JSON, all printed from its table."""

from collections.abc import Iterable, Sequence
from typing import TypedDict

from protocol.machine import ERROR, SUSPEND, Machine
from protocol.machines import EDITIONS, MACHINES

INDEX = "README.md"

STAYING_AND_SUSPEND = """\
A session may always stay in its state: that is no edge, enters nothing again and records no change of state.

When an API that is needed stays out of reach, a session can go to SUSPEND from any of {suspendable}.
SUSPEND leads back to the state it was entered from and to no other, or to ERROR on a time-out, a shutdown or a cancel.
"""

WAY_TO_ERROR = """\
A failure takes its state's own edge to ERROR.
Where there is none it goes by the edges below, one record each, without doing the work of the states on the way.
"""


class MachineJson(TypedDict):
    """The document's own states and edges: neither staying nor SUSPEND is in it."""

    name: str
    initial: str
    terminal: list[str]
    states: list[str]
    edges: list[list[str]]


def as_json(machine: Machine) -> MachineJson:
    """The machine as plain values, each edge as [from, to, label]."""
    return {
        "name": machine.name,
        "initial": machine.initial,
        "terminal": list(machine.terminal),
        "states": list(machine.states),
        "edges": [list(edge) for edge in _edges(machine)],
    }


def mermaid(machine: Machine) -> str:
    """The diagram of the document's own edges, as Mermaid reads it."""
    edges = [f"{state_from} --> {state_to} : {label}" for state_from, state_to, label in _edges(machine)]
    ends = [f"{state} --> [*]" for state in machine.terminal]
    lines = [f"[*] --> {machine.initial}", *edges, *ends]
    return "stateDiagram-v2\n" + "".join(f"    {line}\n" for line in lines)


def table(machine: Machine) -> str:
    """Every edge as a row of a Markdown table."""
    return markdown_table(("from", "to", "when"), _edges(machine))


def page(machine: Machine) -> str:
    """The machine's page in `docs/states/`."""
    source = f"protocol/machines/{machine.name.replace('-', '_')}.py"
    suspendable = _listed([state for state in machine.states if machine.can_suspend(state)])
    sections = [
        f"# {machine.name}\n",
        f"<!-- Printed from {source} by `make docs`: change the table there, not this page. -->\n",
        f"{machine.purpose}\nEdition: {_edition(machine)}.\n{_ends(machine)}\n",
        f"```mermaid\n{mermaid(machine)}```\n",
        "## States\n",
        markdown_table(("state", "what happens in it"), machine.states.items()),
        f"## Edges\n\nAll {len(_edges(machine))} of them; every other step is refused.\n",
        table(machine),
        f"## Staying and SUSPEND\n\n{STAYING_AND_SUSPEND.format(suspendable=suspendable)}",
        f"## The way to ERROR\n\n{WAY_TO_ERROR}",
        markdown_table(("in", "path"), [(state, _path(machine, state)) for state in (*machine.states, SUSPEND)]),
    ]
    return "\n".join(sections)


def index() -> str:
    """The page that lists the machines of each edition."""
    sections = [
        "# The machines\n",
        "<!-- Printed from protocol/machines/ by `make docs`: change the tables there, not this page. -->\n",
        "Every agent follows one of these tables; a step that is not in its table is refused.\n"
        "An edition is a team of machines that fit together.\n",
    ]
    for edition, names in EDITIONS.items():
        rows = [_summary(MACHINES[name]) for name in names]
        sections += [f"## {edition}\n", markdown_table(("machine", "what it does", "states", "edges"), rows)]
    return "\n".join(sections)


def all_pages() -> dict[str, str]:
    """All that `docs/states/` holds, by file name."""
    return {INDEX: index()} | {f"{name}.md": page(machine) for name, machine in MACHINES.items()}


def _edges(machine: Machine) -> list[tuple[str, str, str]]:
    return [
        (state_from, state_to, label) for state_from, row in machine.edges.items() for state_to, label in row.items()
    ]


def _summary(machine: Machine) -> tuple[str, str, str, str]:
    link = f"[{machine.name}]({machine.name}.md)"
    return link, machine.purpose, str(len(machine.states)), str(len(_edges(machine)))


def _edition(machine: Machine) -> str:
    return next(edition for edition, names in EDITIONS.items() if machine.name in names)


def _ends(machine: Machine) -> str:
    if not machine.terminal:
        return f"A session begins in {machine.initial}; no state ends it."
    verb = "ends" if len(machine.terminal) == 1 else "end"
    return f"A session begins in {machine.initial}; {_listed(machine.terminal)} {verb} it."


def _path(machine: Machine, state: str) -> str:
    path = machine.path_to_error(state)
    if path is None:
        return "none: the session is over"
    return " → ".join((state, *path)) if state != ERROR else "is there"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def markdown_table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
