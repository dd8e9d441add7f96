"""Folders: which one is the project, what it is called, and where its state lives."""

import hashlib
import os
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from bus.settings.errors import StateFolderError

FILE_NAME = "callboard.toml"
PROJECT_PATTERN = r"\A[a-z0-9][a-z0-9_-]{0,31}\Z"
PROJECT_CHARACTERS_MAX = 32


def find_root(start: Path) -> Path:
    """The nearest folder with callboard.toml, else the nearest with .git, else `start`; symbolic links resolved."""
    start = start.resolve()
    for marker in (FILE_NAME, ".git"):
        for folder in (start, *start.parents):
            if is_there(folder / marker):
                return folder
    return start


def is_there(path: Path) -> bool:
    """A dangling link counts: whoever made it should hear that it leads nowhere."""
    try:
        path.lstat()
    except OSError:
        return False
    return True


def project_name(text: str) -> str:
    """`text` as a valid project name, the same one every time; "project" when nothing of it can be kept."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    dashed = re.sub(r"[^a-z0-9_-]+", "-", plain).lstrip("-_")
    return dashed[:PROJECT_CHARACTERS_MAX].rstrip("-_") or "project"


def state_folder(project: str, root: Path, chosen: str, environ: Mapping[str, str]) -> Path:
    """Where the state of the project at `root` lives; pure. `chosen` is the setting: absolute, or "" for the default.

    Two checkouts of one project differ in the hash and so never share a state.
    Raises StateFolderError for a folder in the project, and when there is no home to put one in.
    """
    folder = Path(chosen) if chosen else _states(environ) / "callboard" / f"{project}-{_short_hash(root)}"
    _refuse_inside(Path(os.path.normpath(folder)), root)
    return folder


def make_state_folder(folder: Path, root: Path) -> Path:
    """Create `folder` for its owner alone; an existing one is taken as it is, or refused. Doing it twice is fine.

    Raises StateFolderError. An open folder is not closed for the person: it may be one that others use.
    """
    refuse_state_inside(folder, root)
    try:
        _make_private(folder)
        mode = folder.stat().st_mode & 0o777
    except OSError as error:
        fix = "make it possible, or set state_folder"
        raise StateFolderError(str(folder), f"cannot be made ({error.strerror})", fix) from error
    if mode & 0o077:
        fix = f"run: chmod 700 {folder}, or set state_folder to a new folder in it"
        raise StateFolderError(str(folder), f"is open to others (mode {mode:04o})", fix)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise StateFolderError(str(folder), "is not ours to write", "give it to this user, or set state_folder")
    return folder


def refuse_state_inside(folder: Path, root: Path) -> None:
    """Raises StateFolderError when `folder` is in the project by any way, symbolic links included."""
    try:
        _refuse_inside(folder.resolve(), root.resolve())
    except (OSError, RuntimeError) as error:  # Python before 3.13 has a RuntimeError for links that go in circles.
        raise StateFolderError(
            str(folder), f"cannot be followed ({error})", "set state_folder to another one"
        ) from error


def _states(environ: Mapping[str, str]) -> Path:
    # The XDG rules say that a relative path there is to be ignored.
    xdg = Path(environ.get("XDG_STATE_HOME", ""))
    if xdg.is_absolute():
        return xdg
    home = Path(environ.get("HOME", ""))
    if not home.is_absolute():
        fix = "set CALLBOARD_STATE_FOLDER, or HOME"
        raise StateFolderError("the default", "needs XDG_STATE_HOME or HOME, and neither is an absolute path", fix)
    return home / ".local" / "state"


def _short_hash(root: Path) -> str:
    return hashlib.sha256(os.fsencode(root)).hexdigest()[:8]


def _refuse_inside(folder: Path, root: Path) -> None:
    if folder.is_relative_to(root):
        fix = "set state_folder (or CALLBOARD_STATE_FOLDER) to a folder outside, or run this in a project of its own"
        raise StateFolderError(str(folder), f"is inside the project {root}", fix)


def _make_private(folder: Path) -> None:
    """`Path.mkdir(parents=True)` would leave the parents it makes open to others."""
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(20, "it is not a folder")
