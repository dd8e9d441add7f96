"""The broker under measurement: the wheel's nats-server in a folder of its own, ended by its id."""

import json
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Sync = Literal["default", "always"]
SYNCS: tuple[Sync, ...] = ("default", "always")

START_SECONDS = 20.0
STOP_SECONDS = 20.0


@contextmanager
def nats_server(folder: Path, sync: Sync) -> Iterator[str]:
    """A server on a free loopback port, as its URL; the same folder again gives the same data."""
    config, log = folder / "server.conf", folder / "server.log"
    interval = ", sync_interval: always" if sync == "always" else ""
    config.write_text(
        f'listen: "127.0.0.1:-1"\nports_file_dir: "{folder}"\njetstream {{ store_dir: "{folder}/data"{interval} }}\n'
    )
    binary = Path(sysconfig.get_path("scripts")) / "nats-server"
    with log.open("ab") as output:
        process = subprocess.Popen([binary, "--config", config], stdout=output, stderr=output)
    try:
        yield _wait_for_url(folder, process)
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_for_url(folder: Path, process: subprocess.Popen[bytes]) -> str:
    ports = folder / f"nats-server_{process.pid}.ports"
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return str(json.loads(ports.read_text())["nats"][0])
        except (FileNotFoundError, json.JSONDecodeError, KeyError):
            time.sleep(0.005)  # polls to a deadline: the file is there, and whole, when the server listens
    raise RuntimeError(f"nats-server did not start: {(folder / 'server.log').read_text()[-2000:]}")
