"""An environment from signed wheels: built at the site from these alone, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from testbed.api import Api, Object
from testbed.waiting import eventually
from tests.clusters.ocm.conftest import Meet
from tests.clusters.ocm.packages import make_app, seen_by
from tests.clusters.ocm.stories import Federation, Person, online

pytestmark = pytest.mark.timeout(600)


def container(spoke: Api, federation: Federation, name: str) -> Object:
    """Give how the container of an environment's executor does."""
    labels = f"umbel.dev/environment={name}"
    for pod in spoke.list("v1", "Pod", federation.names.addon, labels):
        for status in pod["status"].get("containerStatuses") or ():
            return dict(status)
    return {}


def test_an_app_runs_in_what_was_built_from_signed_wheels(
    bundled: Federation, spokes: Mapping[str, Api], meet: Meet, tmp_path: Path
) -> None:
    boston = spokes["boston"]
    eventually("the executor", lambda: container(boston, bundled, "good").get("ready"), 120)
    bundled.wait(lambda seen: "boston" in online(seen))  # so the hub answers
    owner: Person = meet(bundled)
    ended = owner.runs(make_app(tmp_path / "text", "text"), min_nodes=1, num_server_rounds=1)
    assert ended.status == "completed"
    (site,) = seen_by(ended.said)
    assert (site["tiny_text"], site["tiny_vision"]) == (1, 0)


def test_wheels_that_somebody_else_signed_are_refused(
    bundled: Federation, spokes: Mapping[str, Api]
) -> None:
    def last_words() -> str:
        ended = container(spokes["berlin"], bundled, "bad").get("lastState", {})
        return str(ended.get("terminated", {}).get("message", ""))

    said = eventually("its refusal", last_words, 120)
    assert "U450" in said
    assert "no key that the document names has signed it" in said
