"""Where there can be no container engine, the command says why and does not fail."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.containers.programs import finished

pytestmark = pytest.mark.containers

RUN_SECONDS = 30.0
NEEDED = ("docker-compose", "iptables", "ip")


def run_with_only(programs: Path, *wrapper: str) -> subprocess.CompletedProcess[str]:
    """`python -m tests.containers`, in CI, on a machine that has no programs but these."""
    environment = {"PATH": str(programs), "CI": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    return finished([*wrapper, sys.executable, "-m", "tests.containers"], seconds=RUN_SECONDS, environment=environment)


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_without_docker_and_without_a_way_to_install_it_the_reason_is_said_and_the_exit_is_0(tmp_path: Path) -> None:
    done = run_with_only(tmp_path)

    assert done.returncode == 0
    assert "No container engine, so the container tests are left out: " in done.stderr
    assert done.stdout == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a daemon")
def test_when_the_kernel_refuses_the_daemon_its_last_words_are_said_and_the_exit_is_0(tmp_path: Path) -> None:
    write_program(tmp_path / "dockerd", "echo 'failed to mount overlay: no such device' >&2; exit 1")
    write_program(tmp_path / "docker", "exit 1")
    for program in NEEDED:
        write_program(tmp_path / program, "exit 0")
    for program in ("setpriv", "unshare"):
        (tmp_path / program).symlink_to(str(shutil.which(program)))
    before = set(Path("/tmp").glob("callboard-engine-*"))

    # In a network namespace of its own it does not wait for the engine that runs this test.
    done = run_with_only(tmp_path, str(shutil.which("unshare")), "--net")

    assert done.returncode == 0
    assert "dockerd cannot run here: failed to mount overlay: no such device" in done.stderr
    assert set(Path("/tmp").glob("callboard-engine-*")) == before
