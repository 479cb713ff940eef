"""Nobody dials a hub that cannot answer: whoever waited for it would keep other federations waiting."""

from __future__ import annotations

import pytest
from tests.unit.kube.fake_api import FakeApi, kept_up

from umbel.gate.refusals import HubUnreachable
from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.model.federation import Federation
from umbel.store.memory import MemoryStore
from umbel.targets.ocm.names import FEDERATION, Names
from umbel.targets.ocm.settings import OcmSettings
from umbel.targets.ocm.target import OcmTarget
from umbel.targets.ocm.watching import watched

NAMES = Names("fl", "lab")
POD = f"{NAMES.hub}-0"
LAB = Federation.model_validate(
    {
        "metadata": {"name": "lab", "namespace": "fl"},
        "spec": {"superlink": {"on": "ocm"}, "groups": [{"name": "all", "on": "ocm"}]},
    }
)


@pytest.mark.parametrize("phase", ["", "Pending"])
async def test_a_hub_whose_pod_does_not_run_is_not_dialled(phase: str) -> None:
    api, store = FakeApi(), MemoryStore()
    store.save_federation(LAB)
    async with api.kube() as kube:
        cache = Cache(kube, watched(), lambda *_: None)
        target = OcmTarget(kube, cache, store, NAMES, OcmSettings())
        async with kept_up(cache):
            if phase:
                labels = {FEDERATION: NAMES.addon}
                status = {"phase": phase}
                api.put(kinds.POD, POD, "fl", metadata={"labels": labels}, status=status)
                await api.until(lambda: cache[kinds.POD].get(POD, "fl"))
            with pytest.raises(HubUnreachable, match="its pod does not run yet"):
                target.desk()
