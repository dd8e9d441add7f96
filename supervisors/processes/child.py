"""What a forked process does: be the actor that was ordered."""

import gc
import os
import signal
from pathlib import Path

import uvloop

from actors.errors import NoPartError
from actors.exits import ActorExit
from actors.finding import find_part
from actors.logs import configure_logs
from actors.process import run_actor
from actors.redaction import redact, remember_secrets
from bus.settings import SettingsError, environment_secrets, load
from supervisors.processes.orders import Order


def be_actor(order: Order, leash: int) -> int:
    """Run the actor to its end; returns its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's, which then tells everybody in order
    _print_to(order.log)
    gc.enable()
    remember_secrets(environment_secrets(os.environ))
    configure_logs("info", actor=order.actor)
    try:
        part = find_part(order.machine, order.part)
        loaded = load({"project": order.project, "bus.url": order.url}, os.environ, Path(order.folder))
    except (NoPartError, SettingsError) as error:
        os.write(2, redact(f"{error}\n").encode())
        return ActorExit.CONFIGURATION
    configure_logs(loaded.settings.log_level, actor=order.actor)
    return uvloop.run(run_actor(part, order.actor, loaded, os.environ, leash=leash))


def _print_to(log: str) -> None:
    """Nothing is read, and what is printed goes to the actor's own file."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
