"""`supervisor up`: start the company, in the foreground or in the background."""

import io
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import structlog
import typer
import uvloop

from actors.evidence import reason_of
from actors.logs import configure_logs
from bus.cli.failures import CommandError, StoppedError
from bus.cli.flags import Flags, Json, loaded_settings
from bus.cli.output import say, show_json
from bus.errors import BusError
from bus.exits import Exit
from bus.server.files import make_private_folder
from bus.settings import Loaded
from supervisors.cli.app import app
from supervisors.cli.audience import Announced, Announcer, Lines, Screen, Teller
from supervisors.cli.company import look_for_modules_in
from supervisors.cli.screen import is_terminal
from supervisors.company.audience import Audience
from supervisors.company.company import Outcome
from supervisors.company.evidence import put_aside
from supervisors.company.place import find_place
from supervisors.company.reign import Reign
from supervisors.errors import AlreadyRunningError, NoProbeError, SupervisorError

SUPERVISOR_LOG = "supervisor.log"
UP_SECONDS = 300.0
"""How long `--detach` waits: what fails again and again has used up a budget by then."""


@app.command(
    epilog=(
        "Examples: supervisor up · supervisor up --detach · supervisor -C ~/demo up --exec\n\n"
        "Ctrl-C ends the company in order: everybody finishes what is in hand. A second one ends it at once. "
        "Nothing is lost either way: the next `supervisor up` goes on where this one has stopped."
    ),
)
def up(
    context: typer.Context,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return once the company is up.")] = False,
    exec_: Annotated[
        bool, typer.Option("--exec", help="Start each actor in an interpreter of its own, as supervisor.processes.")
    ] = False,
    json: Json = False,
    announce: Annotated[int, typer.Option(hidden=True)] = -1,
) -> int:
    """Start the company: its broker, its health, its agents.

    In the foreground it shows how everybody is; logs are in the state folder, see `supervisor logs`.
    """
    loaded = loaded_settings(context)
    if exec_:
        supervision = msgspec.structs.replace(loaded.settings.supervisor, processes="exec")
        settings = msgspec.structs.replace(loaded.settings, supervisor=supervision)
        loaded = msgspec.structs.replace(loaded, settings=settings)
    look_for_modules_in(loaded)  # health.probes may name some
    if detach:
        return _detach(context, loaded, exec_=exec_, json=json)
    return _reign(loaded, _audience(announce, json=json))


def _audience(announce: int, *, json: bool) -> Audience:
    if announce >= 0:
        return Announcer(announce)
    if json:
        return Lines()
    return Screen() if is_terminal() else Teller()


def _reign(loaded: Loaded, audience: Audience) -> int:
    with _log_of(loaded).open("a") as log:
        configure_logs(loaded.settings.log_level, actor="supervisor", to=log)
        reign = Reign(loaded, os.environ, audience)
        try:
            outcome = uvloop.run(_run(reign))
        except NoProbeError as error:
            raise _told(audience, CommandError(Exit.USAGE, str(error))) from error
        except SupervisorError as error:
            raise _told(audience, CommandError(Exit.FAILED, str(error))) from error
        except BusError as error:
            raise _told(audience, error) from None
        except Exception as error:
            # Said here: once the log is closed, nobody would hear of it.
            structlog.get_logger().critical("supervisor.crashed", exc_info=error)
            sentence = f"the supervisor has failed ({reason_of(error)}); its log says more: {log.name}"
            raise _told(audience, CommandError(Exit.FAILED, sentence)) from error
        finally:
            audience.close()
    return _exit_of(outcome, reign.told)


async def _run(reign: Reign) -> Outcome:
    return await reign.run()


def _told(audience: Audience, error: Exception) -> Exception:
    if isinstance(audience, Announcer):
        audience.say(str(error))
    return error


def _exit_of(outcome: Outcome, told: signal.Signals | None) -> int:
    if outcome.misconfigured:
        raise CommandError(Exit.USAGE, f"nobody could be started: {'; '.join(outcome.misconfigured)}")
    if outcome.gave_up:
        return Exit.NEEDS_PERSON
    if told is signal.SIGINT:
        raise StoppedError(Exit.INTERRUPTED, "the company is closed; `supervisor up` goes on with its work")
    if told is not None:
        raise StoppedError(Exit.TERMINATED, "the company is closed; `supervisor up` goes on with its work")
    return Exit.OK


def _log_of(loaded: Loaded) -> Path:
    place = find_place(loaded, os.environ)
    make_private_folder(place.folder)
    make_private_folder(place.logs)
    put_aside(place.logs / SUPERVISOR_LOG)
    (place.logs / SUPERVISOR_LOG).touch(mode=0o600)
    return place.logs / SUPERVISOR_LOG


# In the background.


def _detach(context: typer.Context, loaded: Loaded, *, exec_: bool, json: bool) -> int:
    """Start ourselves in a session of our own, and wait until it says that it is up."""
    earlier = find_place(loaded, os.environ).supervisor()
    if earlier is not None:
        raise CommandError(Exit.FAILED, str(AlreadyRunningError(earlier.pid)))
    reading, writing = os.pipe()
    with _log_of(loaded).open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 -- ourselves
            [*_ourselves(context.obj), "up", "--announce", str(writing), *(["--exec"] if exec_ else [])],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(writing,),
        )
    os.close(writing)
    try:
        start = listen(reading, UP_SECONDS)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise StoppedError(Exit.INTERRUPTED, "what had been started has ended again") from None
    if start == "ended":
        code = process.wait()
        raise CommandError(_known(code), f"the company did not come up; its log is {_log_of(loaded)}")
    if start == "gave_up":
        raise CommandError(Exit.NEEDS_PERSON, f"the company did not come up; its log is {_log_of(loaded)}")
    if start == "late":
        sentence = f"the company is not up after {UP_SECONDS:g} s: it goes on trying, `supervisor tree` shows how far"
        raise CommandError(Exit.FAILED, sentence)
    if json:
        show_json({"pid": process.pid, "log": str(_log_of(loaded))})
    else:
        say(f"it goes on as process {process.pid}: `supervisor status` shows it, `supervisor stop` ends it")
    return Exit.OK


def _ourselves(flags: Flags) -> Iterator[str]:
    yield from (sys.executable, "-m", "supervisors.cli", "--directory", str(flags.folder))
    if flags.project is not None:
        yield from ("--project", flags.project)
    if flags.url is not None:
        yield from ("--bus-url", flags.url)


def listen(reading: int, seconds: float) -> Literal["up", "gave_up", "ended", "late"]:
    """Pass on what it says of its start, up to the last word of it; "late": that has not come within so long."""
    deadline, unread = time.monotonic() + seconds, b""
    with os.fdopen(reading, "rb", buffering=0) as announcements:
        while select.select([announcements], [], [], max(0.0, deadline - time.monotonic()))[0]:
            chunk = announcements.read(io.DEFAULT_BUFFER_SIZE)
            if not chunk:
                return "ended"
            *lines, unread = (unread + chunk).split(b"\n")
            for line in lines:
                announced = msgspec.json.decode(line, type=Announced)
                if announced.start:
                    return announced.start
                say(announced.say)
    return "late"


def _known(code: int) -> Exit:
    try:
        return Exit(code) if code else Exit.FAILED
    except ValueError:
        return Exit.FAILED
