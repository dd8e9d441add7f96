"""Which programs a container engine is made of here, and how the missing ones are had from Debian."""

import os
import shutil
import subprocess
import sys

from tests.containers.errors import NoEngineError

# Program -> the Debian package that has it. Newer releases split the client off into docker-cli.
PACKAGES = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "docker-compose": "docker-compose",
    "iptables": "iptables",  # dockerd looks for it even when told not to use it.
    "ip": "iproute2",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
DAEMON_PROGRAMS = tuple(PACKAGES)
APT_SECONDS = 600.0
COMPOSE_SECONDS = 20.0


def say(sentence: str) -> None:
    """Talk goes to stderr; stdout is pytest's."""
    print(sentence, file=sys.stderr, flush=True)


def finished(
    command: list[str], *, seconds: float, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run to the end and give exit code and output, whatever they are; raises subprocess.TimeoutExpired."""
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=seconds,
    )


def compose_command() -> list[str] | None:
    """The Compose at hand: the client's plug-in, else the separate program, else None."""
    plug_in = ["docker", "compose"]
    if shutil.which("docker") and finished([*plug_in, "version"], seconds=COMPOSE_SECONDS).returncode == 0:
        return plug_in
    return ["docker-compose"] if shutil.which("docker-compose") is not None else None


def missing(programs: tuple[str, ...]) -> list[str]:
    """Those of `programs` that are not here; either Compose counts as docker-compose."""
    return [program for program in programs if not is_here(program)]


def is_here(program: str) -> bool:
    if program == "docker-compose":
        return compose_command() is not None
    return shutil.which(program) is not None


def install_missing(programs: tuple[str, ...]) -> None:
    """Install what is not here yet; raises NoEngineError where that cannot be done. Does nothing the second time."""
    if not (absent := missing(programs)):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NoEngineError(f"{', '.join(absent)} not found, and only root on a Debian-like system can install it")
    apt_get("update")
    install(sorted({PACKAGES[program] for program in absent}))
    if missing(("docker",)):
        install(["docker-cli"])
    if absent := missing(programs):
        raise NoEngineError(f"{', '.join(absent)} still not found after installing Debian's packages")


def install(packages: list[str]) -> None:
    say(f"Installing Debian's {', '.join(packages)} (once; takes a minute or so) …")
    if failure := apt_get("install", "--yes", "--no-install-recommends", *packages):
        raise NoEngineError(f"apt-get could not install {', '.join(packages)}: {failure}")


def apt_get(*arguments: str) -> str:
    """What went wrong, in apt's words; empty when all went well. A failed `update` need not stop an `install`."""
    command = ["apt-get", "--quiet", "--quiet", "--option", "DPkg::Lock::Timeout=120", *arguments]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = finished(command, seconds=APT_SECONDS, environment=environment)
    return "" if done.returncode == 0 else last_lines(done.stderr)


def last_lines(text: str, count: int = 5) -> str:
    """The end of a log, where the reason usually stands, on one line."""
    return " | ".join(line.strip() for line in text.strip().splitlines()[-count:]) or "no reason given"
