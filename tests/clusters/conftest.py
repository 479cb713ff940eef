"""One real hub with two real managed clusters, brought up once and used by every test here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from testbed.api import Api
from testbed.bed import Bed
from testbed.build import build
from testbed.errors import CannotRun
from testbed.fleet import Cluster, Fleet

FLEET = Fleet(
    clusters=(
        Cluster(
            name="berlin",
            labels={"gpu": "true"},
            claims={"region.example.org": "eu"},
            capacity={"nvidia.com/gpu": "2"},
        ),
        Cluster(name="boston", labels={"gpu": "false"}, claims={"region.example.org": "us"}),
    )
)


@pytest.fixture(scope="session")
def programs() -> None:
    """Build what is missing; where that cannot be, say why. CI does not take a skip for an answer."""
    try:
        build(lambda *_: None)
    except CannotRun as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{error.fact} ({error.hint})")


@pytest.fixture(scope="session")
def bed(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:  # noqa: ARG001
    state: Path = tmp_path_factory.mktemp("bed")
    steps: list[str] = []
    one = Bed.up(state, FLEET, steps.append)
    yield one
    one.down()


@pytest.fixture(scope="session")
def hub(bed: Bed) -> Iterator[Api]:
    """A client of the hub's API server."""
    with bed.api() as api:
        yield api


@pytest.fixture(scope="session")
def spokes(bed: Bed) -> Iterator[Mapping[str, Api]]:
    """Clients of the managed clusters' API servers, by name."""
    clients = {name: bed.api(name) for name in bed.layout.spokes}
    yield clients
    for api in clients.values():
        api.close()


@pytest.fixture
def namespace(hub: Api) -> Iterator[Callable[[str], str]]:
    """Make namespaces on the hub that see all clusters; they go with the test."""
    made: list[str] = []

    def make(name: str) -> str:
        hub.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        hub.apply(
            {
                "apiVersion": "cluster.open-cluster-management.io/v1beta2",
                "kind": "ManagedClusterSetBinding",
                "metadata": {"name": "global", "namespace": name},
                "spec": {"clusterSet": "global"},
            }
        )
        made.append(name)
        return name

    yield make
    for name in made:
        hub.delete("v1", "Namespace", name)
