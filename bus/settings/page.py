"""The page docs/settings.md, printed from the catalogue."""

from collections.abc import Iterator
from itertools import groupby

from bus.settings.catalogue import SETTINGS, TREE, Setting
from bus.settings.folders import FILE_NAME
from bus.settings.secret import FORMS
from bus.settings.section import POOL_SIZE_MAX
from bus.settings.sources import FOREIGN, NATS_URL
from bus.settings.toml_file import FILE_BYTES_MAX
from bus.settings.tree import POOLS, ROOT, Actor, Group, Pool, Service, TreeText, default_tree
from bus.settings.tree_table import KEYS, LEVELS_MAX, MEMBERS_MAX, render_tree


def _foreign() -> str:
    return "\n".join(
        f"`{name}` counts for `{key}` unless it is empty: over `{FILE_NAME}`, under `{SETTINGS[key].variable}`."
        for name, key in FOREIGN.items()
    )


_BEFORE = f"""\
# Settings

<!-- Printed from bus/settings/model.py by `make docs`: change it there, not this page. -->

Every command reads its settings the same way.
A flag wins over an environment variable, that over `{FILE_NAME}`, and that over the default.
Two settings have flags, which stand before the command (`bus --project demo tail`): `--project` and `--bus-url`.
All others are set by a variable or in the file.
`--directory` is no setting: it says in which folder to begin.
A variable that is set but empty counts as not set, unless the setting's default is `""`.
There it takes back what `{FILE_NAME}` says.
{_foreign()}
An unknown key, an unknown `CALLBOARD_*` variable and a value of the wrong kind are errors, all of them told at once.
Every value given is checked, also one that another source overrides.

## The project

The project is the nearest folder, from the working folder upwards, with a `{FILE_NAME}` in it.
Without one it is the nearest with `.git`, and without that the working folder.
Its name is the setting `project`, or else made from the folder's name.
`{FILE_NAME}` can name programs to run and secrets to send: read a stranger's before you run a command beside it.

```toml
# {FILE_NAME}: everything in it is optional
project = "demo"

[bus]
url = "tls://nats.example.com:4222"
user = "demo"
password = "env:DEMO_PASSWORD"
replicas = 3

[bus.tls]
ca = "certificates/ca.pem"
```
"""

_TREE = f"""\
## The table `[{TREE}]`

What runs, and who watches it; it stands in `{FILE_NAME}` or nowhere, with no variable and no flag.
Without it the tree is that of the edition.
This is the standard edition's; the classic one runs `architect-classic` and `coder-classic`, and no PM.
A table replaces it as a whole, so copy it and change the copy.

```toml
{render_tree(default_tree("standard"))}
```

`[{TREE}]` itself is the root supervisor, `{ROOT}`.
A member with `children` is a supervisor; any other has `runs`: a machine, `web`, `health` or `broker`.
`broker` is the embedded server, left out where `bus.url` is set.
A member that runs {" or ".join(f"`{runs}`" for runs in POOLS)} is a pool: a supervisor of coders.
They are called `coder-1`, `coder-2` and so on, and its `part` and `restart` are theirs.
`supervisor scale` changes how many there are.
Children are started in the order in which they stand, and ended in reverse.

| key | of | default | values | meaning |
|---|---|---|---|---|
"""

_TREE_AFTER = f"""
Every name and every actor's `id` is there once; there is at most one broker, one health monitor and one pool of coders.
A tree has at most {MEMBERS_MAX} members in {LEVELS_MAX} levels, and a pool at most {POOL_SIZE_MAX}.
"""

_AFTER = f"""\
## Paths

A relative path in `{FILE_NAME}` starts at the file's folder, one in a variable or flag at the working folder.
`~` and `~/…` stand for `HOME`.

## Secrets

A secret is never written into the settings: they say where it is, with one of {FORMS}.
A `file:` must be readable by its owner alone (`chmod 600`); `keyring:` needs the `keyring` package.
A variable that `env:` names may itself begin with `CALLBOARD_`, unless it is a setting's.
The password or token in a URL is accepted in `{NATS_URL}` and `CALLBOARD_BUS_URL`, and nowhere else.

## The state folder

Whatever is not the project's own lives in a folder outside of it, readable by its owner alone.
By default that is `$XDG_STATE_HOME/callboard/<project>-<hash>`; without `XDG_STATE_HOME`, `~/.local/state` is taken.
The hash is of the project folder's path, so that two checkouts have two states.

## Limits

`{FILE_NAME}` may have up to {FILE_BYTES_MAX} bytes and is UTF-8.
"""


def render_page() -> str:
    """The whole page; the same text every time."""
    sections = groupby(SETTINGS.values(), key=lambda setting: setting.key.rpartition(".")[0])
    tables = ("\n".join(_table(name, settings)) for name, settings in sections)
    return "\n".join([_BEFORE, *tables, _TREE + "\n".join(_tree_keys()) + "\n" + _TREE_AFTER, _AFTER])


def _table(section: str, settings: Iterator[Setting]) -> Iterator[str]:
    yield f"## `[{section}]`" if section else "## Top level"
    yield ""
    yield "| key | default | environment variable | values | meaning |"
    yield "|---|---|---|---|---|"
    for each in settings:
        yield f"| `{each.key}` | {_default(each)} | `{each.variable}` | {each.expected} | {each.meaning} |"
    yield ""


def _tree_keys() -> Iterator[str]:
    """A row for each key of the tree and those who have it, in the words and with the default of the last of them."""
    rows = {key: setting for keys in KEYS.values() for key, setting in keys.items()}
    for key, setting in rows.items():
        owners = ", ".join(_CALLED[kind] for kind, keys in KEYS.items() if key in keys)
        is_required = key in ("name", "runs")
        default = "–" if is_required or key == "size" else _default(setting)
        yield f"| `{key}` | {owners} | {default} | {setting.expected} | {setting.meaning} |"


_CALLED = {TreeText: "root", Group: "supervisors", Pool: "pools", Actor: "actors", Service: "`broker` and `health`"}


def _default(setting: Setting) -> str:
    if setting.key == "project":
        return "the folder's name"
    match setting.default:
        case None | "":
            return '`""`'
        case str() as text:
            return f'`"{text}"`'
        case bool() as truth:
            return f"`{str(truth).lower()}`"
        case number:
            return f"`{number}`"
