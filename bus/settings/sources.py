"""The three places that settings come from, each read into what was given and what is no setting at all."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bus.settings.catalogue import PREFIX, SECTIONS, SETTINGS, TREE, flag_name, suggest
from bus.settings.errors import Problem
from bus.settings.folders import FILE_NAME
from bus.settings.secret import SecretReference
from bus.settings.toml_file import TomlFile
from bus.settings.values import Given, show_key

# The names that every tool for NATS or Claude knows; ours (CALLBOARD_BUS_URL) win over them.
NATS_URL = "NATS_URL"
FOREIGN = {NATS_URL: "bus.url", "ANTHROPIC_BASE_URL": "model.base_url"}
# The key for the model: no setting, as it is the secret itself and not where it is.
KEY_VARIABLES = ("CALLBOARD_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY")
# A file of nothing but mistakes is told as that, and not as a hundred thousand of them.
UNKNOWN_KEYS_MAX = 100


def from_file(file: TomlFile, home: str) -> Iterator[Given | Problem]:
    """What callboard.toml gives; relative paths in it start at its folder."""
    leaves = list(_leaves(file.data))
    for key, value in leaves:
        if key in SETTINGS:
            base = file.path.parent
            yield Given(setting=SETTINGS[key], value=value, origin="file", source=FILE_NAME, base=base, home=home)
    unknown = [key for key, _ in leaves if key not in SETTINGS and key != TREE]
    yield from (_unknown_key(key, file) for key in unknown[:UNKNOWN_KEYS_MAX])
    if more := len(unknown[UNKNOWN_KEYS_MAX:]):
        yield Problem(place=str(file.path), key=f"{more} more keys", what="are not settings")


def from_variables(environ: Mapping[str, str], start: Path) -> Iterator[Given]:
    """What the environment gives; names that are not ours come first, so that ours win when both are there.

    Set but empty is how scripts unset a variable that is not theirs; only where a setting can be empty it counts.
    """
    home = environ.get("HOME", "")
    given = [(name, SETTINGS[key]) for name, key in FOREIGN.items() if environ.get(name)]
    given += [(each.variable, each) for each in SETTINGS.values() if each.variable in environ]
    for name, setting in given:
        if environ[name] or setting.may_be_empty:
            yield Given(setting=setting, value=environ[name], origin="variable", source=name, base=start, home=home)


def from_flags(flags: Mapping[str, object], start: Path, home: str) -> Iterator[Given | Problem]:
    """What the command line gives, by dotted key; None is a flag that was left out."""
    for key, value in flags.items():
        source = f"flag {flag_name(key)}"
        if key not in SETTINGS:
            yield Problem(place=source, key=show_key(key), what="is not a setting", fix=suggest(key, SETTINGS))
        elif value is not None:
            yield Given(setting=SETTINGS[key], value=value, origin="flag", source=source, base=start, home=home)


def unknown_variables(environ: Mapping[str, str], values: Mapping[str, object]) -> Iterator[Problem]:
    """CALLBOARD_* that are no settings; a variable that a secret refers to may have any name."""
    known = {setting.variable for setting in SETTINGS.values()} | set(KEY_VARIABLES)
    secrets = {each.name for each in values.values() if isinstance(each, SecretReference) and each.kind == "env"}
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known | secrets:
            yield Problem(place="environment", key=show_key(name), what="is not a setting", fix=suggest(name, known))


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Keys and values, going down only where a section is known: no input can make this go deep."""
    for name, value in table.items():
        key = prefix + name
        if key in SECTIONS and isinstance(value, dict):
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value


def _unknown_key(key: str, file: TomlFile) -> Problem:
    if key in SECTIONS:
        fix = f"write its settings below a line [{key}]"
        return Problem(place=file.place(key), key=key, what="is a section, not a setting", fix=fix)
    fix = suggest(key, [*SETTINGS, *SECTIONS, TREE])
    return Problem(place=file.place(key), key=show_key(key), what="is not a setting", fix=fix)
