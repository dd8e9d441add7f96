"""The loader: flags over CALLBOARD_* variables over callboard.toml over defaults; every problem told at once."""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import msgspec

from bus.settings.catalogue import SETTINGS, TREE, build
from bus.settings.consistency import find_contradictions
from bus.settings.errors import Problem, SettingsError
from bus.settings.folders import FILE_NAME, find_root, is_there, project_name
from bus.settings.model import Settings
from bus.settings.secret import SecretReference
from bus.settings.servers import parse_servers, user_in_login
from bus.settings.sources import NATS_URL, from_file, from_flags, from_variables, unknown_variables
from bus.settings.toml_file import TomlFile, read_toml
from bus.settings.tree_table import read_tree
from bus.settings.values import Given, RefusedError, read_value

DEFAULT = "default"
URL_VARIABLES = (NATS_URL, SETTINGS["bus.url"].variable)


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that were checked, and where each came from: `sources` has a flag, variable, file or default by key.

    The table `tree` is among them. `root` is the project's folder, `file` its callboard.toml if it has one.
    """

    settings: Settings
    sources: Mapping[str, str]
    root: Path
    file: TomlFile | None

    def place(self, key: str) -> str:
        """Where a setting was given, for a message: in the file with its line."""
        return _place(key, self.sources[key], self.file)


def load(flags: Mapping[str, object], environ: Mapping[str, str], start: Path) -> Loaded:
    """The settings of the project that `start` is in. `flags` has dotted keys; None is a flag that was left out.

    A value is checked even where another source overrides it: whether it is right does not depend on the rest.
    Raises SettingsError with every problem there is.
    """
    start = start.resolve()
    root = find_root(start)
    home = environ.get("HOME", "")
    draft = _Draft(root)
    draft.read_file()
    given = from_file(draft.file, home) if draft.file else ()
    # The weakest first: what comes later replaces what came before.
    for each in chain(given, from_variables(environ, start), from_flags(flags, start, home)):
        draft.take(each)
    draft.take_tree()
    draft.take_login(environ)
    draft.problems.extend(draft.contradictions())
    draft.problems.extend(unknown_variables(environ, draft.values))
    return draft.finish()


class _Draft:
    """Settings in the making: the best value so far of each, and what is wrong."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file: TomlFile | None = None
        self.values: dict[str, object] = {key: setting.default for key, setting in SETTINGS.items()}
        self.values |= {"project": project_name(root.name), TREE: None}
        self.sources = dict.fromkeys([*SETTINGS, TREE], DEFAULT)
        self.problems: list[Problem] = []
        self.doubtful: set[str] = set()

    def read_file(self) -> None:
        path = self.root / FILE_NAME
        try:
            self.file = read_toml(path) if is_there(path) else None
        except SettingsError as error:
            self.problems.extend(error.problems)
            self.doubtful.update(self.sources)  # Any of them may stand in what could not be read.

    def take(self, each: Given | Problem) -> None:
        if isinstance(each, Problem):
            self.problems.append(each)
            return
        key = each.setting.key
        try:
            self.values[key] = read_value(each)
            self.sources[key] = each.source
        except RefusedError as error:
            self.doubtful.add(key)
            self.problems.append(Problem(place=self.place(key, each.source), key=key, what=error.what, fix=error.fix))

    def take_tree(self) -> None:
        if self.file and TREE in self.file.data:
            self.values[TREE], problems = read_tree(self.file.data[TREE], self.file)
            self.sources[TREE] = FILE_NAME
            self.problems.extend(problems)
            self.doubtful.update([TREE] if problems else [])

    def take_login(self, environ: Mapping[str, str]) -> None:
        """Turn the login of a URL in the environment into bus.user and a reference; what is set outright stays."""
        variable = self.sources["bus.url"]
        login = parse_servers(environ[variable]).login if variable in URL_VARIABLES else ""
        if not login:
            return
        user = user_in_login(login)
        secret = SecretReference(kind="url", name=variable)
        found = {"bus.user": user, "bus.password": secret} if user else {"bus.token": secret}
        for key, value in found.items():
            if self.sources[key] in (DEFAULT, FILE_NAME):
                self.values[key], self.sources[key] = value, variable

    def contradictions(self) -> Iterator[Problem]:
        for found in find_contradictions(self.values, self.root):
            if self.doubtful.isdisjoint(found.keys):
                places = dict.fromkeys(self.place(key) for key in found.keys if self.sources[key] != DEFAULT)
                yield Problem(place=" and ".join(places), key=" and ".join(found.keys), what=found.what, fix=found.fix)

    def place(self, key: str, source: str = "") -> str:
        return _place(key, source or self.sources[key], self.file)

    def finish(self) -> Loaded:
        if self.problems:
            raise SettingsError(sorted(self.problems, key=self.line))
        return Loaded(settings=build(Settings, self.values), sources=self.sources, root=self.root, file=self.file)

    def line(self, problem: Problem) -> float:
        """To read the file once from top to bottom; what has no line in it comes after, in the order it was found."""
        found = re.match(rf"{re.escape(str(self.root / FILE_NAME))}:(\d+)", problem.place)
        return int(found[1]) if found else math.inf


def _place(key: str, source: str, file: TomlFile | None) -> str:
    return file.place(key) if file and source == FILE_NAME else source
