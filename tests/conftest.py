"""What all tests share: real servers, one per worker, and a project of its own for each test."""

import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from protocol.subjects import Subjects
from tests.nats_server import NatsServer, start_cluster

# A shell's background and nohup have these ignored, and every command that a test signals to would inherit that.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A server for tests that do not hurt it."""
    server = NatsServer(tmp_path_factory.mktemp("nats")).start()
    yield server
    server.stop()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[NatsServer]:
    """A server for a test that kills it."""
    server = NatsServer(tmp_path / "nats").start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NatsServer]]:
    """Three nodes for tests that do not hurt them."""
    nodes = start_cluster(tmp_path_factory.mktemp("cluster"))
    yield nodes
    for node in nodes:
        node.stop()


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A command that runs inside a test sets up logging for its process, which is ours."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def subjects() -> Subjects:
    """A project that no other test has."""
    return Subjects(f"t{secrets.token_hex(6)}")
