"""What a started process does: be the actor that was ordered."""

import gc
import os
import sys
from pathlib import Path

import uvloop

from actors.errors import NoPartError
from actors.exits import ActorExit
from actors.finding import find_part
from actors.logs import configure_logs
from actors.process import run_actor
from actors.redaction import redact, remember_secrets
from bus.server.identity import key_file
from bus.settings import SettingsError, environment_secrets, load
from protocol.subjects import Role
from supervisors.processes.orders import Order


def be_actor(order: Order, tether: int) -> int:
    """Run the actor to its end; returns its exit code. `tether` is its end of the line to its supervisor."""
    print_to(order.log)
    gc.enable()
    remember_secrets(environment_secrets(os.environ))
    configure_logs("info", actor=order.actor)
    try:
        part = find_part(order.machine, order.part, named_by="the part")
        loaded = load(_flags(order, part.behaviour.role), os.environ, Path(order.folder))
    except (NoPartError, SettingsError) as error:
        os.write(2, redact(f"{error}\n").encode())
        return ActorExit.CONFIGURATION
    configure_logs(loaded.settings.log_level, actor=order.actor)
    return uvloop.run(run_actor(part, order.actor, loaded, os.environ, tether=tether))


def _flags(order: Order, role: Role) -> dict[str, str]:
    """What its supervisor says over all other settings."""
    flags = {"project": order.project, "bus.url": order.url}
    return flags | {"bus.credentials": str(key_file(Path(order.broker), role))} if order.broker else flags


def look_in(folder: str) -> None:
    """Have Python look for parts in a project's folder, and in the working folder."""
    sys.path[:0] = [folder, str(Path.cwd())]


def print_to(log: str) -> None:
    """Nothing is read, and what is printed goes to the actor's own file."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
