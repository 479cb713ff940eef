"""One real hub with two real managed clusters, brought up once and used by every test here.

Where the machine can, every cluster has real nodes that run real containers; elsewhere simulated
ones. `UMBEL_TESTBED_STATE=DIR` uses the bed that is up in that folder, and leaves it up.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from testbed import fleet
from testbed.api import Api
from testbed.bed import Bed, take_nodes
from testbed.build import build
from testbed.errors import CannotRun
from testbed.pods import cgroups, images, network
from testbed.pods.commands import run
from testbed.pods.node import assert_can_run, leftovers
from testbed.programs import cache

FLEET = fleet.load(Path(__file__).with_name("fleet.yaml"))
_DIGITS = re.compile(r"(\d+)")
STATE = "UMBEL_TESTBED_STATE"


@dataclass(frozen=True)
class Traces:
    """What a test bed could leave on a machine."""

    mounts: str
    links: str
    rules: str
    namespaces: tuple[str, ...]
    groups: tuple[str, ...]


def traces() -> Traces:
    # Other programs' own groups may come and go deeper down: the first level is ours to compare.
    groups = [str(path) for path in cgroups.ROOT.glob("*/*") if path.is_dir()]
    folder = network.NAMESPACES
    return Traces(
        Path("/proc/self/mounts").read_text(),
        run(["ip", "-o", "link"]),
        run(["iptables-save"]),
        tuple(sorted(path.name for path in folder.iterdir())) if folder.is_dir() else (),
        tuple(sorted(groups)),
    )


def why_not(look: Callable[[], object]) -> str:
    """Tell why this machine cannot; nothing if it can. CI takes no reason for an answer."""
    try:
        look()
    except CannotRun as error:
        if os.environ.get("CI"):
            raise
        return f"{error.fact} ({error.hint})"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tell the stories in the order of their numbers: the tenth after the ninth."""

    def place(item: pytest.Item) -> list[str | int]:
        return [int(word) if word.isdigit() else word for word in _DIGITS.split(str(item.path))]

    items.sort(key=place)


@pytest.fixture(scope="session")
def programs() -> None:
    """Every program is built; where that cannot be, the test is skipped with the reason."""
    if reason := why_not(lambda: build(lambda *_: None)):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def bed(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:  # noqa: ARG001
    """The hub and its spokes, with real nodes where they can run."""
    if STATE in os.environ:
        yield standing(Path(os.environ[STATE]))
        return
    state = tmp_path_factory.mktemp("bed") / "s"
    real = not why_not(assert_can_run)
    if real:
        take_nodes(state, lasting=False)  # and with them goes what a crashed bed left
    before = traces() if real else None
    archives = images.build(cache() / "images") if real else ()
    one = Bed.up(state, FLEET, lambda _: None, archives, lasting=False)
    yield one
    one.down()
    if before:
        assert leftovers() == []
        assert traces() == before


def standing(state: Path) -> Bed:
    """Give the bed that is up there, with the project's image as its source is now."""
    one = Bed.at(state)
    if one.layout.nodes:
        one.load(images.build(cache() / "images"))
    return one


@pytest.fixture(scope="session")
def pods(bed: Bed) -> Bed:
    """The same bed, for tests that need real nodes with real containers and `images.UMBEL`."""
    if not bed.layout.nodes:
        assert "CI" not in os.environ
        pytest.skip(why_not(assert_can_run) or "this bed was brought up without --pods")
    return bed


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
