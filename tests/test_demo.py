"""The demo runs, says what it should, and leaves nothing behind."""

import os
import subprocess
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_demo_publishes_once_across_a_kill_and_leaves_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "CALLBOARD_PROJECT": "from-outside"}

    done = subprocess.run(
        [ROOT / "tools" / "demo", sysconfig.get_path("scripts")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("published todo as revision 1") == 1
    assert "was published before with the same text (revision 1)" in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert not any(str(tmp_path) in command for command in _commands())


def _commands() -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(process.read_text(errors="replace"))
        except OSError:
            continue  # it ended while we looked
    return found
