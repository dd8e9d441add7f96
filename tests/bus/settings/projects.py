"""Projects to load settings in, and what loading tells."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bus.settings import (
    Problem,
    SettingsError,
    load,
)
from bus.settings.catalogue import SETTINGS

PLANTED = "hunter2-planted"
EACH_SETTING = pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.key)


def a_project(folder: Path, toml: str | bytes | None = "") -> Path:
    """A project folder called demo; None leaves callboard.toml out, and .git marks it instead."""
    root = folder / "demo"
    root.mkdir()
    if toml is None:
        (root / ".git").mkdir()
    else:
        (root / "callboard.toml").write_bytes(toml.encode() if isinstance(toml, str) else toml)
    return root


def problems_of(
    start: Path, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> tuple[Problem, ...]:
    with pytest.raises(SettingsError) as caught:
        load(flags or {}, environ or {}, start)
    return caught.value.problems


def refused(
    start: Path, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> list[str]:
    """Every problem that loading tells, as text."""
    return [str(problem) for problem in problems_of(start, environ, flags)]
