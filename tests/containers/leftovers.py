"""What a container engine leaves on a machine although its processes and mounts are gone, and its removal."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.containers.programs import finished, say

REMOVE_SECONDS = 15.0
POLL_SECONDS = 0.1
# A socket's path may have 107 characters at most, so a long TMPDIR will not do.
FOLDERS = Path("/tmp")
PREFIX = "callboard-engine-"
CGROUPS = Path("/sys/fs/cgroup")
DEFAULT_BRIDGE = Path("/sys/class/net/docker0")
# Docker and containerd write here whatever folders they are told to use.
FIXED_PATHS = tuple(map(Path, ("/etc/docker/key.json", "/run/docker", "/run/containerd", "/opt/containerd")))


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for an engine; with it goes all that the engine made outside of it and that was not there before."""
    remove_orphans()
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=FOLDERS))
    new = [path for path in (*FIXED_PATHS, DEFAULT_BRIDGE) if not path.exists()]
    try:
        yield folder
    finally:
        if DEFAULT_BRIDGE in new and DEFAULT_BRIDGE.exists():
            finished(["ip", "link", "delete", DEFAULT_BRIDGE.name], seconds=REMOVE_SECONDS)
        remove_cgroups(folder.name)
        for path in (folder, *(path for path in FIXED_PATHS if path in new)):
            remove(path)


def remove_orphans() -> None:
    """Folders and cgroups of runs that were killed with kill -9: the process in their name is gone."""
    for folder in FOLDERS.glob(f"{PREFIX}*-*"):
        if not Path("/proc", folder.name.removeprefix(PREFIX).partition("-")[0]).exists():
            remove_cgroups(folder.name)
            remove(folder)


def remove_cgroups(name: str) -> None:
    """Cgroups are folders that only rmdir removes, children first; version 1 has a tree for each controller."""
    for top in (CGROUPS / name, *CGROUPS.glob(f"*/{name}")):
        for path, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                Path(path).rmdir()


def remove(path: Path) -> None:
    """The engine's last processes may still be on their way out, so this tries until a deadline."""
    deadline = time.monotonic() + REMOVE_SECONDS
    while path.exists():
        with suppress(OSError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if time.monotonic() > deadline:
            say(f"Could not remove {path}.")
            return
        if path.exists():
            time.sleep(POLL_SECONDS)
