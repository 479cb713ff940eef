"""Guides: what they tell people to apply is taken by a real hub, and moving over ends well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from testbed.api import Api, Object
from testbed.pods import images
from tests.clusters.ocm.conftest import Declare, Meet
from tests.clusters.ocm.stories import (
    ADDON,
    CLUSTER,
    HUB_ADDRESS,
    VERSION,
    Federation,
    Person,
    label,
)

pytestmark = pytest.mark.timeout(600)
GUIDES = Path(__file__).parents[3] / "docs" / "guides" / "ocm"
YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
HERE = (VERSION, f"{CLUSTER}/v1beta2", f"{CLUSTER}/v1alpha1", ADDON)
VALUES = """\
addon: {name: flower-addon, installStrategy: Manual}
superlink: {namespace: ocm-moved}
"""
APPLY = "application/apply-patch+yaml"
MOVED = "umbel.dev/flower-addon"


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


@pytest.fixture
def nobody(tmp_path: Path, hospitals_declared: Federation) -> Person:
    """Somebody who has the command and knows no federation."""
    return Person(tmp_path / "home", hospitals_declared)


@pytest.fixture
def moved(hub: Api, nobody: Person, lasting: Declare, tmp_path: Path) -> Iterator[Federation]:
    """Move over from the chart with its values as they are shipped: convert, label, apply."""
    values, made = tmp_path / "values.yaml", tmp_path / "federation.yaml"
    values.write_text(VALUES)
    done = nobody.umbel("convert", "flower-addon", str(values), "-o", str(made))
    assert done.returncode == 0, done.stderr
    assert f"kubectl label managedcluster NAME {MOVED}=true" in done.stderr
    document = yaml.safe_load(made.read_text())
    document["spec"]["superlink"]["endpoint"] = HUB_ADDRESS  # as the guide says
    document["spec"]["runtime"] = {"image": {"name": images.UMBEL, "pullPolicy": "Never"}}
    meta = document["metadata"]
    label(hub, "boston", **{MOVED: "true"})
    federation = lasting(meta["namespace"], meta["name"], document["spec"])
    yield federation
    federation.delete()
    label(hub, "boston", **{MOVED: None})


def test_values_of_flower_addon_become_a_federation_that_trains(
    moved: Federation, meet: Meet
) -> None:
    moved.until_ready("boston")
    ended = meet(moved).runs(min_nodes=1, num_server_rounds=1)
    assert (ended.status, ended.rounds) == ("completed", [[0]])
