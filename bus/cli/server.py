"""`bus server`: the embedded server, kept running between commands."""

import os

import typer

from bus import server as embedded
from bus.cli.app import Json, app, loaded_settings, say, show, show_json
from bus.exits import Exit
from bus.opening import server_folder
from protocol.subjects import Subjects

server = typer.Typer(no_args_is_help=True, help="Start, stop and find the embedded server.", rich_markup_mode=None)
app.add_typer(server, name="server")


@server.command(epilog="Example: bus server start")
def start(context: typer.Context, json: Json = False) -> int:
    """Start the project's server in the background, or find the one that runs; it stays until `bus server stop`."""
    loaded = loaded_settings(context)
    folder = server_folder(loaded, os.environ)
    running = embedded.start_or_adopt(folder, Subjects(loaded.settings.project), loaded.settings.server, keep=True)
    if json:
        show_json({"url": running.url, "pid": running.pid, "started": running.started_by_us})
    else:
        show(running.url)
        say(f"{'started' if running.started_by_us else 'already running'} as process {running.pid}")
    return Exit.OK


@server.command(epilog="Example: bus server stop")
def stop(context: typer.Context) -> int:
    """Stop the project's server; what it stores stays."""
    loaded = loaded_settings(context)
    stopped = embedded.stop(server_folder(loaded, os.environ), loaded.settings.server.stop_seconds)
    say("stopped" if stopped else "none was running")
    return Exit.OK


@server.command(epilog="Example: bus server status --json")
def status(context: typer.Context, json: Json = False) -> int:
    """Say whether the project's server runs, and where."""
    running = embedded.find_running(server_folder(loaded_settings(context), os.environ))
    if json:
        show_json({"running": running is not None, "url": running.url if running else None})
    else:
        show(f"running at {running.url} as process {running.pid}" if running else "not running")
    return Exit.OK
