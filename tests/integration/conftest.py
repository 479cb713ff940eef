"""The tests of a folder share federations: they stay together, in their order, also with `-n 2`."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each worker whole folders."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0].rpartition("/")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFolder | None:
    """Tell xdist how to share the tests out, unless somebody did."""
    return ByFolder(config, log) if config.getoption("dist") == "load" else None
