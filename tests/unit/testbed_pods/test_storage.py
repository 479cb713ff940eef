"""A claim gets a folder of the node where its pod will run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from testbed.api import Object
from testbed.pods import storage

FOLDER = Path("/nodes/berlin-1/volumes/pvc-1")


def claim(**changed: Any) -> Object:
    notes = {storage.ASKED: storage.PROVISIONER, storage.SELECTED: "berlin-1"}
    meta = {"name": "data", "namespace": "flower", "uid": "1", "annotations": notes}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage.CLASS,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"metadata": {**meta, **changed}, "spec": spec}


def test_a_claim_waits_when_its_pod_has_a_node() -> None:
    assert storage.waits(claim())


@pytest.mark.parametrize(
    "other",
    [
        claim(annotations={storage.ASKED: storage.PROVISIONER}),
        claim(annotations={storage.ASKED: "somebody.else", storage.SELECTED: "berlin-1"}),
        claim(deletionTimestamp="now"),
        {**claim(), "spec": {"volumeName": "there-already"}},
    ],
    ids=["no node yet", "of another", "going", "served"],
)
def test_other_claims_are_left_alone(other: Object) -> None:
    assert not storage.waits(other)


def test_a_volume_is_for_its_claim_and_stays_on_its_node() -> None:
    volume = storage.volume_for(claim(), "berlin-1", FOLDER)
    spec = volume["spec"]
    assert volume["metadata"]["name"] == "pvc-1"
    assert (spec["local"]["path"], spec["capacity"]) == (str(FOLDER), {"storage": "1Gi"})
    assert {key: spec["claimRef"][key] for key in ("namespace", "name", "uid")} == {
        "namespace": "flower",
        "name": "data",
        "uid": "1",
    }
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["berlin-1"]


def test_a_claim_that_asks_for_more_than_it_has_grows() -> None:
    bound = {**claim(), "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    assert not storage.grows(bound)
    bound["spec"]["resources"] = {"requests": {"storage": "2Gi"}}
    assert storage.grows(bound)
    assert not storage.grows({**bound, "status": {"phase": "Pending"}})
    del bound["metadata"]["annotations"]
    assert not storage.grows(bound)


def test_a_volume_is_removed_when_its_claim_is_gone() -> None:
    volume = storage.volume_for(claim(), "berlin-1", FOLDER)
    assert not storage.is_released({**volume, "status": {"phase": "Bound"}})
    assert storage.is_released({**volume, "status": {"phase": "Released"}})
    del volume["metadata"]["annotations"]
    assert not storage.is_released({**volume, "status": {"phase": "Released"}})


def test_the_class_is_the_default_one() -> None:
    made = storage.storage_class()
    notes = made["metadata"]["annotations"]
    assert notes["storageclass.kubernetes.io/is-default-class"] == "true"
    assert made["allowVolumeExpansion"]
