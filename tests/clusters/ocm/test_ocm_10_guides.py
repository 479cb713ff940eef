"""Guides: what they tell people to apply is taken by a real hub, and moving over ends well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from testbed.api import Api, Object
from tests.clusters.ocm.conftest import Meet
from tests.clusters.ocm.stories import (
    ADDON,
    CLUSTER,
    VERSION,
    Federation,
)

pytestmark = pytest.mark.timeout(600)
GUIDES = Path(__file__).parents[3] / "docs" / "guides" / "ocm"
YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
HERE = (VERSION, f"{CLUSTER}/v1beta2", f"{CLUSTER}/v1alpha1", ADDON)
APPLY = "application/apply-patch+yaml"


def documents() -> Iterator[Any]:
    """Give every object in the guides that a hub with Umbel serves, and where it stands."""
    for page in sorted(GUIDES.glob("*.md")):
        for number, block in enumerate(YAML.findall(page.read_text())):
            for content in yaml.safe_load_all(block):
                if isinstance(content, dict) and content.get("apiVersion") in HERE:
                    yield pytest.param(content, id=f"{page.stem}-{number}-{content['kind']}")


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("content", list(documents()))
def test_what_a_guide_says_is_taken_by_the_hub(hub: Api, content: Object) -> None:
    meta = content["metadata"]
    path = hub.path(content["apiVersion"], content["kind"], "default", meta["name"])
    body = {**content, "metadata": {**meta, "namespace": "default"}}
    query = "fieldManager=someone&force=true&dryRun=All&fieldValidation=Strict"
    taken = hub.request("PATCH", f"{path}?{query}", body, Content_Type=APPLY)
    assert taken["metadata"]["name"] == meta["name"]


def test_values_of_flower_addon_become_a_federation_that_trains(
    moved: Federation, meet: Meet
) -> None:
    moved.until_ready("boston")
    ended = meet(moved).runs(min_nodes=1, num_server_rounds=1)
    assert (ended.status, ended.rounds) == ("completed", [[0]])
