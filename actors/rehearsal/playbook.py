"""Reading parts from a folder: one Python file for each, in the order of their names.

A file defines `CUES`, a sequence of cues or functions, or a function `answer(scene)`, or both: then `CUES` come first.
A name that begins with an underscore is no part.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from actors.rehearsal.errors import BadPartError
from actors.rehearsal.parts import Part


def read_parts(folder: Path) -> tuple[Part, ...]:
    """All parts of a folder; BadPartError names the file that cannot be used, and why."""
    if not folder.is_dir():
        raise BadPartError(f"{folder}: there is no such folder of parts")
    files = [path for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")]
    if not files:
        raise BadPartError(f"{folder}: there is no part in it, which would be a file like coder.py")
    return tuple(part for path in files for part in _read(path))


def _read(path: Path) -> Sequence[Part]:
    module = _run(path)
    cues = getattr(module, "CUES", ())
    answer = getattr(module, "answer", None)
    parts: list[Part] = [*cues, *([answer] if answer is not None else [])] if isinstance(cues, list | tuple) else []
    if not parts or not all(callable(part) for part in parts):
        raise BadPartError(f"{path}: a part has CUES, a list of Cue, or a function answer(scene)")
    return parts


def _run(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"rehearsal_part_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever somebody's file does when it is read
        raise BadPartError(f"{path}: {type(error).__name__}: {error}") from error
    return module
