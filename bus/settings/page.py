"""The page docs/settings.md, printed from the catalogue."""

from collections.abc import Iterator
from itertools import groupby

from bus.settings.catalogue import SETTINGS, Setting
from bus.settings.folders import FILE_NAME
from bus.settings.secret import FORMS
from bus.settings.sources import NATS_URL
from bus.settings.toml_file import FILE_BYTES_MAX

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
`{NATS_URL}` counts for `bus.url` unless it is empty: over `{FILE_NAME}`, under `CALLBOARD_BUS_URL`.
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
    return "\n".join([_BEFORE, *("\n".join(_table(name, settings)) for name, settings in sections), _AFTER])


def _table(section: str, settings: Iterator[Setting]) -> Iterator[str]:
    yield f"## `[{section}]`" if section else "## Top level"
    yield ""
    yield "| key | default | environment variable | values | meaning |"
    yield "|---|---|---|---|---|"
    for each in settings:
        yield f"| `{each.key}` | {_default(each)} | `{each.variable}` | {each.expected} | {each.meaning} |"
    yield ""


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
