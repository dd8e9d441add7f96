"""`bus server`: the embedded server, kept running between commands."""

import os

import typer

from bus import server as embedded
from bus.cli.app import Json, app, loaded_settings
from bus.cli.output import say, show, show_json
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


@server.command(epilog="Example: bus server start")
def start(context: typer.Context, json: Json = False) -> int:
    """Start the project's server in the background, or find the one that runs; it stays until `bus server stop`."""
    with embedded_server(_settings(context), os.environ, keep=True) as running:
        if json:
            show_json({"url": running.url, "pid": running.pid, "started": running.started_by_us})
        else:
            show(running.url)
            say(f"{'started' if running.started_by_us else 'already running'} as process {running.pid}")
    return Exit.OK


@server.command(epilog="Example: bus server stop")
def stop(context: typer.Context, json: Json = False) -> int:
    """Stop the project's server; what it stores stays."""
    loaded = _settings(context)
    stopped = embedded.stop(server_folder(loaded, os.environ), loaded.settings.server.stop_seconds)
    show_json({"stopped": stopped}) if json else say("stopped" if stopped else "none was running")
    return Exit.OK


@server.command(epilog="Example: bus server status --json")
def status(context: typer.Context, json: Json = False) -> int:
    """Say whether the project's server runs, and where."""
    running = embedded.find_running(server_folder(_settings(context), os.environ))
    if json:
        found = {"url": running.url, "pid": running.pid} if running else {"url": None, "pid": None}
        show_json({"running": running is not None, **found})
    else:
        show(f"running at {running.url} as process {running.pid}" if running else "not running")
    return Exit.OK
