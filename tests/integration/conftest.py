"""The tests of a folder share federations: they stay together, in their order, also with `-n 2`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.network import CAN_PART, Network
from xdist.scheduler import LoadScopeScheduling


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each worker whole folders; all to one where federations would take each other's ports."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0].rpartition("/")[0] if CAN_PART else ""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFolder | None:
    """Tell xdist how to share the tests out, unless somebody did."""
    return ByFolder(config, log) if config.getoption("dist") == "load" else None


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    """A network that nobody else is in; whoever is killed there finds its ports free again."""
    made = Network()
    yield made
    made.close()
