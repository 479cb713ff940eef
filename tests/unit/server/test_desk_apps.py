from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from umbel.server.desk.sites import keep_apps
from umbel.server.problems import OrderInvalid


def test_which_sites_can_run_an_app_is_kept_beside_the_roster(tmp_path: Path) -> None:
    roster = tmp_path / "sites.json"
    keep_apps(roster, {"a/b": ["berlin"]})
    kept = tmp_path / "environments.json"
    assert json.loads(kept.read_text()) == {"a/b": ["berlin"]}
    assert kept.stat().st_mode & 0o777 == 0o600
    before = kept.stat().st_ino
    keep_apps(roster, {"a/b": ["berlin"]})
    assert kept.stat().st_ino == before
    keep_apps(roster, {})
    assert json.loads(kept.read_text()) == {}


@pytest.mark.parametrize("apps", [[], "a/b", {"a/b": "berlin"}, {"a/b": [7]}, {"a/b": None}])
def test_what_is_no_list_of_sites_is_refused(tmp_path: Path, apps: Any) -> None:
    with pytest.raises(OrderInvalid):
        keep_apps(tmp_path / "sites.json", apps)
    assert not list(tmp_path.iterdir())
