"""Containerised NATS as plain URLs: `nats_url` for one node, `cluster_urls` for three."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from tests.containers.cluster import Cluster, running_cluster, wait_until_usable
from tests.containers.image import IMAGE_VARIABLE

CONFIG = Path(__file__).parents[2] / "deploy" / "nats.conf"
CLIENT_PORT, MONITOR_PORT = 4222, 8222


@pytest.fixture(scope="session")
def nats_image() -> str:
    """The image that `python -m tests.containers` prepared; without it there is no engine to run it either."""
    if image := os.environ.get(IMAGE_VARIABLE):
        return image
    reason = "needs a container engine: run `make test-containers`"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def nats_container(nats_image: str) -> Iterator[DockerContainer]:
    """One NATS server with JetStream on compose.yaml's configuration, its ports published on loopback only."""
    # Not testcontainers' NatsContainer: importing it warns that what it is built on will be removed.
    container = DockerContainer(nats_image).with_command(["--config", "/etc/nats/nats.conf"])
    container.with_volume_mapping(CONFIG, "/etc/nats/nats.conf", "ro")
    container.waiting_for(LogMessageWaitStrategy("Server is ready").with_poll_interval(0.05))
    for port in (CLIENT_PORT, MONITOR_PORT):
        # The Docker library takes an address with the port, which testcontainers' own annotation leaves out.
        container.ports[str(port)] = ("127.0.0.1", None)  # type: ignore[assignment]
    with container:
        yield container


@pytest.fixture(scope="session")
def nats_url(nats_container: DockerContainer) -> str:
    """One node. Shared by all tests: use names of your own and do not stop it."""
    url = f"nats://127.0.0.1:{nats_container.get_exposed_port(CLIENT_PORT)}"
    asyncio.run(wait_until_usable([url], replicas=1))
    return url


@pytest.fixture(scope="session")
def cluster_urls(nats_image: str) -> Iterator[list[str]]:
    """Three nodes, one URL each. Shared by all tests: use names of your own and kill nothing."""
    with running_cluster(nats_image) as cluster:
        yield cluster.urls


@pytest.fixture
def own_cluster(nats_image: str) -> Iterator[Cluster]:
    """Three nodes of a test's own, for those that kill some of them."""
    with running_cluster(nats_image) as cluster:
        yield cluster
