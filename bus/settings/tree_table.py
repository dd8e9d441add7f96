"""The table `tree` of callboard.toml: read, with every mistake told by its line, and written again."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bus.settings.catalogue import TREE, Setting, list_settings, suggest
from bus.settings.errors import Problem
from bus.settings.folders import FILE_NAME
from bus.settings.section import Section
from bus.settings.toml_file import TomlFile
from bus.settings.tree import POOLS, SERVICES, Actor, Group, Member, Pool, Service, TreeText
from bus.settings.tree_clashes import find_clashes
from bus.settings.values import Given, RefusedError, read_value, show, show_key

LEVELS_MAX = 6
MEMBERS_MAX = 1000
# A table of nothing but mistakes is told as that, and not as a hundred thousand of them.
PROBLEMS_MAX = 100

KEYS: Mapping[type[Section], Mapping[str, Setting]] = {
    kind: {setting.key: setting for setting in list_settings(kind)} for kind in (TreeText, Group, Pool, Actor, Service)
}
"""What may stand in the table of the root and of each kind of member, besides `children`."""

CALLED: Mapping[type[Section], str] = {
    TreeText: "the root supervisor",
    Group: "a supervisor, which has children",
    Pool: "a pool of coders",
    Actor: "a single actor",
    Service: "a service",
}


def read_tree(table: object, file: TomlFile) -> tuple[TreeText | None, list[Problem]]:
    """The tree that `table` describes, or None and everything that is wrong with it."""
    reader = _Reader(file)
    tree = reader.read_root(table)
    if more := reader.problems_found - len(reader.problems):
        reader.problems.append(Problem(place=str(file.path), key=f"{more} more keys", what=f"in {TREE} are wrong"))
    return (None if reader.problems else tree), reader.problems


def render_tree(tree: TreeText) -> str:
    """The table that describes `tree`; what is the default anyway is left out."""
    return "\n".join(_lines(f"[{TREE}]", TREE, tree))


def _lines(header: str, path: str, member: TreeText | Member) -> Iterator[str]:
    yield header
    for field in msgspec.structs.fields(member):
        value = getattr(member, field.name)
        if field.name != "children" and value != field.default:
            yield f"{field.name} = {json.dumps(value, ensure_ascii=False)}"
    for child in member.children if isinstance(member, TreeText | Group) else ():
        yield ""
        yield from _lines(f"[[{path}.children]]", f"{path}.children", child)


class _Reader:
    """Reads tables, going on after a mistake. A key says where something stands: `tree.children[2].name`."""

    def __init__(self, file: TomlFile) -> None:
        self.problems: list[Problem] = []
        self.problems_found = 0
        self._file = file
        self._read: list[tuple[str, Member]] = []
        self._members = 0

    def read_root(self, table: object) -> TreeText | None:
        if not isinstance(table, dict):
            self._refuse(TREE, f"must be a table, not {show(table)}", f"write its settings below a line [{TREE}]")
            return None
        values = self._values(TREE, TreeText, table)
        children = self._children(TREE, table, level=1)
        for key, what, other in find_clashes(self._read):
            self._refuse(key, what, f"the other is at {self._file.place(other)}" if other else "")
        return None if self.problems else TreeText(**values, children=children)

    def _children(self, parent: str, table: Mapping[str, Any], level: int) -> tuple[Member, ...]:
        key = f"{parent}.children"
        children = table.get("children")
        if level > LEVELS_MAX:
            self._refuse(key, f"are nested more than {LEVELS_MAX} levels deep", "write it flatter")
        elif not isinstance(children, list) or not children:
            said = "have to be one or more tables" + (f", not {show(children)}" if isinstance(children, dict) else "")
            self._refuse(key, said, f"begin each with a line [[{_path(key)}]]")
        else:
            read = [self._member(f"{key}[{number}]", child, level) for number, child in enumerate(children)]
            return tuple(member for member in read if member)
        return ()

    def _member(self, key: str, table: object, level: int) -> Member | None:
        self._members += 1
        if self._members > MEMBERS_MAX:
            if self._members == MEMBERS_MAX + 1:
                self._refuse(key, f"is one more than the {MEMBERS_MAX} that a tree may have")
            return None
        if not isinstance(table, dict):
            self._refuse(key, f"must be a table, not {show(table)}", f"begin it with a line [[{_path(key)}]]")
            return None
        before = self.problems_found
        kind = _kind(table)
        values = self._values(key, kind, table)
        if kind is Group:
            values["children"] = self._children(key, table, level + 1)
        if self.problems_found > before:
            return None
        member = kind(**values)
        self._read.append((key, member))
        return member

    def _values(self, key: str, kind: type[Section], table: Mapping[str, Any]) -> dict[str, Any]:
        """What a table says of its own, as far as it is right."""
        values: dict[str, Any] = {}
        for name, value in table.items():
            if name in KEYS[kind]:
                try:
                    values[name] = read_value(self._given(KEYS[kind][name], value))
                except RefusedError as error:
                    self._refuse(f"{key}.{name}", error.what, error.fix)
            elif name != "children":
                self._refuse_unknown(key, name, kind)
        self._refuse_pauses(key, kind, values)
        for field in msgspec.structs.fields(kind):
            if field.required and field.name in KEYS[kind] and field.name not in table:
                fix = "say what it runs, or give it children" if field.name == "runs" else ""
                self._refuse(key, f"has no {field.name}", fix)
        return values

    def _given(self, setting: Setting, value: object) -> Given:
        base = self._file.path.parent
        return Given(setting=setting, value=value, origin="file", source=FILE_NAME, base=base, home="")

    def _refuse_pauses(self, key: str, kind: type[Section], values: Mapping[str, Any]) -> None:
        first, longest = "pause_seconds", "pause_seconds_max"
        if first in KEYS[kind]:
            pauses = {name: values.get(name, KEYS[kind][name].default) for name in (first, longest)}
            if pauses[first] > pauses[longest]:
                given = first if first in values else longest
                what = f"leaves {first}, {pauses[first]:g}, over {longest}, {pauses[longest]:g}"
                self._refuse(f"{key}.{given}", what, "lower the one, or raise the other")

    def _refuse_unknown(self, key: str, name: str, kind: type[Section]) -> None:
        known = [*KEYS[kind], "children"] if self.problems_found < PROBLEMS_MAX else ()
        owners = " or ".join(CALLED[each] for each, keys in KEYS.items() if name in keys)
        fix = f"it belongs to {owners}" if owners else suggest(name, known)
        self._refuse(f"{key}.{name}", f"is not a setting of {CALLED[kind]}", fix, shown=f"{key}.{show_key(name)}")

    def _refuse(self, key: str, what: str, fix: str = "", shown: str = "") -> None:
        self.problems_found += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(place=self._file.place(key), key=shown or key, what=what, fix=fix))


def _kind(table: Mapping[str, Any]) -> type[Group] | type[Pool] | type[Service] | type[Actor]:
    """By what only this kind has; whatever is wrong with it is told as a mistake of this kind."""
    if "children" in table:
        return Group
    runs = table.get("runs")
    return Pool if runs in POOLS else Service if runs in SERVICES else Actor


def _path(key: str) -> str:
    """The key as a header of the file spells it."""
    return re.sub(r"\[\d+]", "", key)
