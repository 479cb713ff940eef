"""What a hub holds before OCM starts: its definitions, rights and webhooks."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml
from testbed import objects

WEBHOOK = "https://127.0.0.1:9"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Definitions as the API module lays them out, each with its plural only."""
    files = {
        "addon/v1alpha1/0000_00_a.crd.yaml": "old",
        "addon/v1alpha1/0000_03_a.crd.yaml": "addontemplates",
        "addon/v1beta1/0000_00_a.crd.yaml": "clustermanagementaddons",
        "cluster/v1alpha1/0000_02_c.crd.yaml": "clusterclaims",
        "work/v1/0000_00_w.crd.yaml": "manifestworks",
        "work/v1/0000_01_w.crd.yaml": "appliedmanifestworks",
    }
    for name, plural in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({"spec": {"names": {"plural": plural}}}))
    return tmp_path


def plurals(definitions: list[objects.Object]) -> set[str]:
    return {one["spec"]["names"]["plural"] for one in definitions}


def test_hub_and_spoke_get_their_own_definitions(folder: Path) -> None:
    hub = list(objects.hub_definitions(folder, WEBHOOK, b"ca"))
    assert plurals(hub) == {"addontemplates", "clustermanagementaddons", "manifestworks"}
    spoke = list(objects.spoke_definitions(folder))
    assert plurals(spoke) == {"clusterclaims", "appliedmanifestworks"}


def test_only_add_ons_are_converted(folder: Path) -> None:
    hub = objects.hub_definitions(folder, WEBHOOK, b"ca")
    by_plural = {one["spec"]["names"]["plural"]: one["spec"].get("conversion") for one in hub}
    how = by_plural.pop("clustermanagementaddons")
    assert how["webhook"]["clientConfig"]["url"] == f"{WEBHOOK}/convert"
    assert set(by_plural.values()) == {None}


def test_a_webhook_that_is_away_lets_nothing_pass() -> None:
    for configuration in objects.admission(WEBHOOK, b"ca"):
        (hook,) = configuration["webhooks"]
        assert hook["failurePolicy"] == "Fail"
        assert hook["clientConfig"]["url"].startswith(WEBHOOK)
        assert base64.b64decode(hook["clientConfig"]["caBundle"]) == b"ca"


def test_a_cluster_that_asks_to_join_may_not_accept_itself() -> None:
    role, _ = objects.bootstrap()
    resources = {name for rule in role["rules"] for name in rule["resources"]}
    assert "managedclusters/accept" not in resources
    assert all("*" not in rule["verbs"] and "update" not in rule["verbs"] for rule in role["rules"])
