"""`bus server`: the embedded server, kept running between commands."""

import os

import typer

from bus import server as embedded
from bus.cli.app import app
from bus.cli.flags import Json, loaded_settings
from bus.cli.output import one_line, say, show, show_json
from bus.exits import Exit
from bus.opening import embedded_server, server_folder
from bus.settings import Loaded

server = typer.Typer(
    no_args_is_help=True,
    help="Start, stop and find the embedded server.",
    epilog="Examples: bus server start · bus server status --json · bus server stop",
    rich_markup_mode=None,
)
app.add_typer(server, name="server")


def _settings(context: typer.Context) -> Loaded:
    loaded = loaded_settings(context)
    if loaded.settings.bus.url:
        say(f"this project uses NATS at {loaded.settings.bus.url}; its embedded server is another one")
    return loaded


def _whose(loaded: Loaded) -> str:
    return f"the embedded server of project {loaded.settings.project}"


@server.command(epilog="Example: bus server start")
def start(context: typer.Context, json: Json = False) -> int:
    """Start the project's server in the background.

    If it runs, it is left as it is; either way it stays until `bus server stop`.
    """
    loaded = _settings(context)
    with embedded_server(loaded, os.environ, keep=True) as running:
        if json:
            show_json({"url": running.url, "pid": running.pid, "started": running.started_by_us})
        else:
            show(running.url)
            done = "was started" if running.started_by_us else "is already running"
            say(f"{_whose(loaded)} {done} as process {running.pid}")
    return Exit.OK


@server.command(epilog="Example: bus server stop")
def stop(context: typer.Context, json: Json = False) -> int:
    """Stop the project's server; what it stores stays."""
    loaded = _settings(context)
    stopped = embedded.stop(server_folder(loaded, os.environ), loaded.settings.server.stop_seconds)
    if json:
        show_json({"stopped": stopped})
    else:
        say(f"{_whose(loaded)} {'was stopped' if stopped else 'was not running'}")
    return Exit.OK


@server.command(epilog="Example: bus server status --json")
def status(context: typer.Context, json: Json = False) -> int:
    """Say whether the project's server runs, and where."""
    loaded = _settings(context)
    folder = server_folder(loaded, os.environ)
    running, state = embedded.find_running(folder), folder.parent
    if json:
        found = {"url": running.url, "pid": running.pid} if running else {"url": None, "pid": None}
        place = {"project": loaded.settings.project, "state_folder": str(state)}
        show_json({"running": running is not None, **found, **place})
    else:
        where = f"is running at {running.url} as process {running.pid}" if running else "is not running"
        show(f"{_whose(loaded)} {where}\nits state is in {one_line(str(state))}")
    return Exit.OK
