"""`make setup` mends by itself what an interruption or a moved folder has left unusable.

make, venv and pip are the real ones; in the place of uv, which would have to be downloaded with all that the project
needs, stands a program of the same name.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
UV = "#!/bin/sh\nexit 0\n"
METADATA = "Metadata-Version: 2.1\nName: uv\nVersion: 1\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which pip finds the other uv."""
    folder = tmp_path_factory.mktemp("wheels")
    command = zipfile.ZipInfo("uv-1.data/scripts/uv")
    command.external_attr = 0o100755 << 16
    described = {"uv-1.dist-info/METADATA": METADATA, "uv-1.dist-info/WHEEL": WHEEL}
    listed = [command.filename, *described, "uv-1.dist-info/RECORD"]
    with zipfile.ZipFile(folder / "uv-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(command, UV)
        for name, text in described.items():
            wheel.writestr(name, text)
        wheel.writestr(listed[-1], "".join(f"{name},,\n" for name in listed))
    return folder


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Path:
    """A clone that was set up, to be copied."""
    if shutil.which("make") is None:
        pytest.fail("make is missing") if os.environ.get("CI") else pytest.skip("make is missing")
    clone = tmp_path_factory.mktemp("clones") / "clone"
    (clone / "tools").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "tools/setup"):
        shutil.copy(ROOT / name, clone / name)
    (clone / "constraints.txt").write_text("")
    done = make(clone, wheels, "setup")
    assert done.returncode == 0, done.stderr
    return clone


def make(clone: Path, wheels: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run make as somebody without a network."""
    others = ("MAKE", "PIP_", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}
    python = [] if any(word.startswith("PYTHON=") for word in words) else [f"PYTHON={sys.executable}"]
    return subprocess.run(
        ["make", *python, *words], cwd=clone, env=environment, capture_output=True, text=True, check=False
    )


def copy_of(clone: Path, folder: Path) -> Path:
    """The same in another place, as a moved folder has it."""
    return shutil.copytree(clone, folder / "moved", symlinks=True)


def interpreter_of(clone: Path) -> str:
    """What pip's command says that it runs with."""
    return (clone / ".venv" / "bin" / "pip").read_text().splitlines()[0]


def test_what_is_ready_is_left_alone(ready: Path, wheels: Path) -> None:
    done = make(ready, wheels, "setup")

    assert "Nothing to be done" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_a_setup_that_was_interrupted_before_pip_was_there_is_made_anew(
    ready: Path, wheels: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(ready, clone, ignore=shutil.ignore_patterns(".venv"))
    made = subprocess.run([sys.executable, "-m", "venv", "--without-pip", clone / ".venv"], check=False)
    assert made.returncode == 0

    done = make(clone, wheels, "setup")

    assert done.returncode == 0, done.stderr
    assert done.stderr == ".venv was interrupted while it was made, or has been moved: making it anew.\n"
    assert (clone / ".venv" / "bin" / "uv").exists()


def test_a_moved_clone_is_set_up_again_where_it_is_now(ready: Path, wheels: Path, tmp_path: Path) -> None:
    clone = copy_of(ready, tmp_path)
    assert str(ready) in interpreter_of(clone)

    first, second = make(clone, wheels, "setup"), make(clone, wheels, "setup")

    assert first.returncode == 0, first.stderr
    assert "has been moved" in first.stderr
    assert str(clone) in interpreter_of(clone)
    assert "Nothing to be done" in second.stdout


def test_a_python_that_cannot_be_run_is_named(ready: Path, wheels: Path, tmp_path: Path) -> None:
    done = make(copy_of(ready, tmp_path), wheels, "PYTHON=/nope", "setup")

    assert done.returncode != 0
    assert done.stderr.splitlines()[:2] == [
        "This Python cannot be run: /nope",
        "Name another one: make PYTHON=python3.12 setup",
    ]
