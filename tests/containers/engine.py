"""The container engine of a test run: the machine's own where one answers, else one started for the run."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.containers.daemon import answers, own_daemon
from tests.containers.errors import EngineFailureError, NoEngineError
from tests.containers.programs import DAEMON_PROGRAMS, finished, install_missing, last_lines, say

COMMAND_SECONDS = 120.0
# Any of these would lead the client away from the address that was chosen.
CLIENT_SETTINGS = ("DOCKER_CONTEXT", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A local daemon; `started_here` says that it was started for this run."""

    host: str
    started_here: bool

    def environment(self) -> dict[str, str]:
        """What the Docker client, Compose and testcontainers need in order to talk to this engine and no other."""
        kept = {name: value for name, value in os.environ.items() if name not in CLIENT_SETTINGS}
        return {
            **kept,
            "DOCKER_HOST": self.host,
            "DOCKER_BUILDKIT": "0",  # BuildKit is a plug-in that need not be there; the old builder always is.
            "TESTCONTAINERS_RYUK_DISABLED": "true",  # Its image would have to be pulled; fixtures clean up.
        }

    def run(self, *arguments: str) -> str:
        """Run a Docker command to its end and give its output; raises EngineFailureError with what it said."""
        command = ["docker", *arguments]
        done = finished(command, seconds=COMMAND_SECONDS, environment=self.environment())
        if done.returncode != 0:
            raise EngineFailureError(command, last_lines(done.stderr))
        return done.stdout


@contextmanager
def running_engine() -> Iterator[Engine]:
    """An engine with Compose beside it; raises NoEngineError where there can be none."""
    if (host := reachable_host()) is None:
        require_linux_root()
        install_missing(DAEMON_PROGRAMS)
        host = reachable_host()  # Where a service manager runs, the package has started its daemon by itself.
    if host is None:
        with own_daemon() as host:
            yield Engine(host=host, started_here=True)
    else:
        require_compose()
        yield Engine(host=host, started_here=False)


def reachable_host() -> str | None:
    """The address of this machine's daemon, if one answers."""
    if shutil.which("docker") is None:
        return None
    host = os.environ.get("DOCKER_HOST") or context_host()
    if not host.startswith("unix://"):
        # The tests reach published ports on loopback, which another machine's daemon does not have.
        say(f"Not using the container engine at {host}: it is not on this machine.")
        return None
    return host if answers(host) else None


def context_host() -> str:
    command = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    return finished(command, seconds=COMMAND_SECONDS).stdout.strip() or "unix:///var/run/docker.sock"


def require_linux_root() -> None:
    if sys.platform != "linux":
        raise NoEngineError(f"no Docker daemon answers, and none can be started on {sys.platform}")
    if os.geteuid() != 0:
        raise NoEngineError("no Docker daemon answers (docker info), and starting one needs root")


def require_compose() -> None:
    """With a daemon there is an engine, so Compose that cannot be had is a failure, not a reason to leave out tests."""
    try:
        install_missing(("docker-compose",))
    except NoEngineError as error:
        raise EngineFailureError(["docker", "compose", "version"], f"{error.reason}; install Docker Compose") from error
