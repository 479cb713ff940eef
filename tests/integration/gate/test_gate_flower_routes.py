"""Compares our table with the routers of the Flower that is installed."""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

import pytest

from umbel.flower import routes
from umbel.flower.routes import Api

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Flower's own imports

ROUTERS = {
    Api.FLEET: ["flwr.superlink.routers.fleet.router"],
    Api.CONTROL: ["flwr.superlink.routers.control.router"],
    Api.RUNTIME: [
        "flwr.supercore.routers.runtime.router",
        "flwr.supercore.routers.runtime.responses",
    ],
}


@pytest.fixture(scope="module")
def minor() -> str:
    return ".".join(metadata.version("flwr").split(".")[:2])


@pytest.mark.parametrize("api", list(Api))
def test_the_table_is_flowers(api: Api, minor: str) -> None:
    found: set[str] = set()
    for name in ROUTERS[api]:
        router: Any = import_module(name).router
        for route in router.routes:
            path = str(route.path)
            found.add(path if path.startswith("/v1/") else f"/v1/{api}{path}")
            assert route.methods == {"POST"}
    assert found == routes.paths(api, minor)


def test_each_route_is_there_once() -> None:
    paths = [route.path for route in routes.ROUTES]
    assert len(paths) == len(set(paths)) == 75


def test_an_older_flower_has_fewer_routes() -> None:
    newer = routes.paths(Api.RUNTIME, "1.41") - routes.paths(Api.RUNTIME, "1.40")
    assert newer == {"/v1/runtime/get-compacted-contexts", "/v1/runtime/put-compacted-context"}
    for api in (Api.FLEET, Api.CONTROL):
        assert routes.paths(api, "1.40") == routes.paths(api, "1.41")


def test_who_only_looks_changes_nothing() -> None:
    for route in routes.BY_PATH[Api.CONTROL].values():
        looks = route.name.startswith(("list-", "get-", "show-", "stream-"))
        if route.role is not None:
            assert looks is (route.role == "viewer"), route
