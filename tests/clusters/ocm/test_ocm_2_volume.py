"""Hub side: the SuperLink's volume grows with the document, and what it cannot do is said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from testbed.api import Api, Object, Refused
from testbed.pods import storage
from testbed.waiting import eventually
from tests.clusters.ocm.stories import (
    PATIENCE_S,
    Declare,
    Federation,
    condition,
    siteless,
)

pytestmark = pytest.mark.timeout(600)
SPACE = "ocm-volumes"
STIFF = "stiff"


def claim(federation: Federation) -> Object:
    name = f"state-{federation.names.hub}-0"
    found = federation.hub.get("v1", "PersistentVolumeClaim", name, federation.namespace)
    return found or {}


def capacity(federation: Federation) -> Any:
    return claim(federation).get("status", {}).get("capacity", {}).get("storage")


def resize(federation: Federation, size: str) -> None:
    federation.change(superlink={"kubernetes": {"storage": {"size": size}}})


def hub_pod(federation: Federation) -> Object:
    name = f"{federation.names.hub}-0"
    return federation.hub.wait(("v1", "Pod", name, federation.namespace), _is_ready)


def _is_ready(pod: Object) -> bool:
    return condition(pod, "Ready").get("status") == "True"


@pytest.fixture(scope="module")
def stiff(hub: Api) -> Iterator[str]:
    """A class of volumes that do not grow."""
    made = storage.storage_class() | {"metadata": {"name": STIFF}, "allowVolumeExpansion": False}
    hub.apply(made)
    yield STIFF
    hub.delete("storage.k8s.io/v1", "StorageClass", STIFF)


@pytest.fixture(scope="module", autouse=True)
def rigid(declare: Declare, stiff: str) -> Federation:
    """A federation whose volume does not grow; it comes up while others are looked at."""
    return declare(SPACE, "stiff", siteless(size="1Gi", className=stiff))


def test_a_larger_size_grows_the_volume_under_the_running_hub(growing: Federation) -> None:
    before = hub_pod(growing)["metadata"]["uid"]
    assert capacity(growing) == "1Gi"
    resize(growing, "2Gi")
    eventually("the larger volume", lambda: capacity(growing) == "2Gi", PATIENCE_S)
    seen = growing.wait(
        lambda seen: (
            seen["status"].get("observedGeneration") == seen["metadata"]["generation"]
            and not condition(seen, "VolumeSized")
        )
    )
    assert condition(seen, "HubAvailable")["status"] == "True"
    assert hub_pod(growing)["metadata"]["uid"] == before


def test_a_smaller_size_is_refused(growing: Federation) -> None:
    resize(growing, "2Gi")
    with pytest.raises(Refused, match="a volume cannot shrink"):
        resize(growing, "1Gi")


def test_a_class_that_cannot_expand_is_said_and_the_hub_goes_on(rigid: Federation) -> None:
    hub_pod(rigid)
    resize(rigid, "2Gi")
    said = rigid.until_said("VolumeSized", "VolumeCannotGrow")
    assert said["status"] == "False"
    assert "must support resize" in said["message"]  # the API server's words
    assert "allowVolumeExpansion: true" in said["message"]
    assert capacity(rigid) == "1Gi"
    assert condition(rigid.seen(), "HubAvailable")["status"] == "True"


def test_it_grows_once_its_class_lets_it(hub: Api, rigid: Federation, stiff: str) -> None:
    rigid.until_said("VolumeSized", "VolumeCannotGrow")
    path = hub.path("storage.k8s.io/v1", "StorageClass", "", stiff)
    hub.patch(path, {"allowVolumeExpansion": True})
    eventually("the larger volume", lambda: capacity(rigid) == "2Gi", PATIENCE_S)
