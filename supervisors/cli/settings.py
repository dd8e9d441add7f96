"""`supervisor settings`: each value, and where it came from."""

from functools import reduce

import msgspec
import typer

from bus.cli.flags import Json, loaded_settings
from bus.cli.output import one_line, plain, show, show_json
from bus.exits import Exit
from bus.settings import Loaded, SecretReference
from bus.settings.catalogue import SETTINGS, TREE
from bus.settings.tree_table import render_tree
from supervisors.cli.app import app
from supervisors.core.planning import tree_of


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as it holds now. A secret is shown by where it is, never itself."""

    key: str
    value: object
    source: str


@app.command(epilog="Examples: supervisor settings · supervisor settings --json · supervisor -C ~/demo settings")
def settings(context: typer.Context, json: Json = False) -> int:
    """Show each setting and where its value came from.

    That is a line of callboard.toml, a variable, a flag or the default; of a secret the place is shown where it is
    kept. Needs no broker.
    """
    loaded = loaded_settings(context)
    values = [Value(key=key, value=_value(loaded, key), source=loaded.place(key)) for key in SETTINGS]
    tree = tree_of(loaded.settings)
    if json:
        show_json([*values, Value(key=TREE, value=tree, source=loaded.place(TREE))])
        return Exit.OK
    width = max(len(each.key) for each in values)
    for each in values:
        value = msgspec.json.encode(each.value).decode()
        show(one_line(f"{each.key:{width}} = {value}  ({each.source})"))
    show(f"\n# the tree ({one_line(loaded.place(TREE))})\n{plain(render_tree(tree))}")
    return Exit.OK


def _value(loaded: Loaded, key: str) -> object:
    value: object = reduce(getattr, key.split("."), loaded.settings)
    return str(value) if isinstance(value, SecretReference) else value
