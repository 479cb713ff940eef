"""The hub's volume grows with the document, and nothing else is done to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.unit.kube.fake_api import FakeApi, kept_up

from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.model.federation import Federation
from umbel.model.status import Condition
from umbel.targets.ocm import hub as hub_objects
from umbel.targets.ocm import volume as volumes
from umbel.targets.ocm.names import FEDERATION, Names
from umbel.targets.ocm.volume import Volume, VolumeCannotGrow, VolumeCannotShrink, VolumeKeepsClass
from umbel.targets.ocm.watching import watched

NAMES = Names("fl", "lab")
CLAIM = "state-lab-hub-0"
LABELS = {"labels": {FEDERATION: NAMES.addon}}
PATCH = "PATCH /api/v1/namespaces/fl/persistentvolumeclaims"


def federation(**storage: str) -> Federation:
    link = {"on": "ocm", "kubernetes": {"storage": storage}}
    spec = {"superlink": link, "groups": [{"name": "all", "on": "ocm"}]}
    return Federation.model_validate({"metadata": {"name": "lab"}, "spec": spec})


class Place:
    """A hub whose volume has some size."""

    def __init__(self) -> None:
        self.api = FakeApi()
        kube = self.api.kube()
        self.cache = Cache(kube, watched(), lambda *_: None)
        self.volume = Volume(kube, self.cache, NAMES)

    async def has(self, size: str, **status: Any) -> None:
        spec = {
            "storageClassName": "fast",
            "resources": {"requests": {"storage": status.pop("asked", size)}},
        }
        said = {"capacity": {"storage": size}, **status}
        self.api.put(kinds.CLAIM, CLAIM, "fl", metadata=LABELS, spec=spec, status=said)
        for _ in range(50):
            await asyncio.sleep(0)

    async def look(self, **storage: str) -> Condition | None:
        await self.volume.look(federation(**storage))
        return next(iter(self.volume.found), None)

    @property
    def asked(self) -> str:
        found = self.api.get(kinds.CLAIM, CLAIM, "fl")
        assert found is not None
        return str(found["spec"]["resources"]["requests"]["storage"])

    @property
    def patches(self) -> int:
        return sum(one.startswith(PATCH) for one in self.api.asked)


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    made = Place()
    async with kept_up(made.cache):
        yield made


async def test_without_a_volume_there_is_nothing_to_do(place: Place) -> None:
    assert await place.look(size="1Gi") is None
    assert place.patches == 0


@pytest.mark.parametrize("size", ["10Gi", "10240Mi"])
async def test_a_volume_of_the_declared_size_is_left_alone(place: Place, size: str) -> None:
    await place.has("10Gi")
    assert await place.look(size=size) is None
    assert place.patches == 0


async def test_a_larger_size_is_asked_for_once_and_told_until_it_is_there(place: Place) -> None:
    await place.has("1Gi")
    said = await place.look(size="2Gi")
    assert place.asked == "2Gi"
    assert said == Condition(
        "VolumeSized", "True", "VolumeGrows", f"the volume {CLAIM} grows from 1Gi to 2Gi"
    )
    await place.look(size="2Gi")
    assert place.patches == 1
    await place.has("2Gi")
    assert await place.look(size="2Gi") is None


async def test_a_file_system_that_waits_for_its_pod_is_told(place: Place) -> None:
    pending = [{"type": "FileSystemResizePending", "status": "True"}]
    await place.has("1Gi", asked="2Gi", conditions=pending)
    said = await place.look(size="2Gi")
    assert said is not None
    assert said.hint.endswith("kubectl delete pod lab-hub-0")


async def test_a_class_that_does_not_let_it_grow_is_told_and_not_asked_again_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.has("1Gi")
    place.api.refusals[PATCH] = (403, "Forbidden")
    for _ in range(3):
        said = await place.look(size="2Gi")
        assert said is not None
        assert (said.status, said.reason) == ("False", "VolumeCannotGrow")
        assert "it said Forbidden" in said.message
        assert "allowVolumeExpansion" in said.hint
    assert place.patches == 1
    with pytest.raises(VolumeCannotGrow) as caught:
        await place.volume.settle(federation(size="2Gi"))
    assert caught.value.exit_status == 2
    place.api.refusals.clear()
    monkeypatch.setattr(volumes, "AGAIN_S", 0.0)
    now = await place.look(size="2Gi")
    assert now is not None
    assert now.reason == "VolumeGrows"


async def test_what_its_driver_says_is_told(place: Place) -> None:
    failed = [{"type": "ControllerResizeError", "status": "True", "message": "no room"}]
    await place.has("1Gi", asked="2Gi", conditions=failed)
    said = await place.look(size="2Gi")
    assert said is not None
    assert (said.reason, "no room" in said.message) == ("VolumeCannotGrow", True)


async def test_a_smaller_size_is_refused(place: Place) -> None:
    await place.has("10Gi")
    said = await place.look(size="9Gi")
    assert said is not None
    assert (said.status, said.reason) == ("False", "VolumeCannotShrink")
    assert "has 10Gi and cannot shrink to 9Gi" in said.message
    with pytest.raises(VolumeCannotShrink):
        await place.volume.settle(federation(size="9Gi"))
    assert place.patches == 0


async def test_another_class_is_refused(place: Place) -> None:
    await place.has("10Gi")
    with pytest.raises(VolumeKeepsClass, match="of class 'fast' and cannot become 'slow'"):
        await place.volume.settle(federation(className="slow"))
    await place.volume.settle(federation(className="fast"))


async def test_a_stateful_set_is_never_told_another_size(place: Place) -> None:
    assert place.volume.template() is None
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    there = {"volumeClaimTemplates": [{"spec": {**spec, "volumeMode": "Filesystem"}}]}
    place.api.put(kinds.STATEFUL_SET, NAMES.hub, "fl", metadata=LABELS, spec=there)
    for _ in range(50):
        await asyncio.sleep(0)
    first = hub_objects.stateful_set(hub_objects.Hub(federation(size="1Gi"), NAMES, "i", "PEM"))
    kept = hub_objects.Hub(federation(size="2Gi"), NAMES, "i", "PEM", claim=place.volume.template())
    assert hub_objects.stateful_set(kept)["spec"] == first["spec"]
