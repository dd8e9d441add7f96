"""The demo runs, shows what it should, and leaves nothing behind, also when it is interrupted."""

import os
import signal
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SECONDS_MAX = 55.0
"""A person is promised less than a minute, on a machine that has nothing else to do."""


def start(folder: Path) -> "subprocess.Popen[str]":
    """The demo, in a session of its own as at a terminal, with everything that it makes below a folder."""
    return subprocess.Popen(
        [ROOT / "tools" / "demo", sysconfig.get_path("scripts")],
        env={**os.environ, "TMPDIR": str(folder), "CALLBOARD_PROJECT": "from-outside"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def left_behind(folder: Path) -> list[str]:
    """Files below the folder, and processes that were started with it in their environment."""
    found = [str(path) for path in folder.iterdir()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(folder) in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text(errors="replace").replace("\0", " "))
        except OSError:
            continue  # it ended while we looked, or is not ours
    return found


def test_the_demo_shows_a_story_through_a_kill_and_an_outage_and_leaves_nothing(tmp_path: Path) -> None:
    with start(tmp_path) as demo:
        said, _ = demo.communicate(timeout=SECONDS_MAX)

    assert demo.returncode == 0, said
    assert "resumed" in said
    assert "SUSPEND" in said
    assert "supervisor: model is not healthy: overloaded" in said
    assert "AWAIT_MERGE → DONE" in said
    assert ", 0 offences" in said
    assert said.endswith(
        "The story is done: merged s-1.\nModel calls that were paid for: 7, of these paid for twice: 0.\n"
    )
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("moment", ["broker is ready", "(exit code 5", "== Its model goes down"])
def test_ctrl_c_ends_the_demo_with_everything_that_it_has_started(tmp_path: Path, moment: str) -> None:
    with start(tmp_path) as demo:
        assert demo.stdout is not None
        said = ""
        for line in demo.stdout:
            said += line
            if line.startswith(moment):
                os.killpg(demo.pid, signal.SIGINT)
        demo.wait(SECONDS_MAX)

    assert moment in said
    assert demo.returncode == 130, said
    assert "The story is done" not in said
    assert left_behind(tmp_path) == []
