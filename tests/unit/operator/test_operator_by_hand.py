"""From a laptop: who keeps a federation is found out, and nobody waits for somebody who is away."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.kube.fake_api import FakeApi

from umbel.kube import kinds
from umbel.model.federation import Federation
from umbel.operator.by_hand import Hand
from umbel.targets.ocm.install import OPERATOR, OperatorSettings, operator_objects
from umbel.targets.ocm.names import FEDERATION, FINALIZER, Names

NAMES = Names("fl", "lab")
DOCUMENT = Federation.model_validate(
    {
        "metadata": {"name": "lab", "namespace": "fl"},
        "spec": {"superlink": {"on": "ocm"}, "groups": [{"name": "all", "on": "ocm"}]},
    }
)


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def hand(api: FakeApi) -> Hand:
    return Hand(api.kube(), DOCUMENT)


def install(api: FakeApi, replicas: int = 1, **settings: Any) -> None:
    """Have an operator on the hub, as our manifests install it."""
    made = operator_objects(OperatorSettings(**settings))
    (deployment,) = (one for one in made if one["kind"] == "Deployment")
    meta, spec = deployment["metadata"], {**deployment["spec"], "replicas": replicas}
    labels = {"labels": meta["labels"]}
    api.put(kinds.DEPLOYMENT, meta["name"], meta["namespace"], metadata=labels, spec=spec)


def hold(api: FakeApi, holder: str, ago_s: float) -> None:
    """Have a lease that somebody renewed so long ago."""
    renewed = datetime.now(UTC) - timedelta(seconds=ago_s)
    spec = {"holderIdentity": holder, "renewTime": renewed.isoformat()}
    api.put(kinds.LEASE, OPERATOR, "umbel-system", spec=spec)


async def test_a_hub_that_knows_no_federations_has_no_operator(api: FakeApi, hand: Hand) -> None:
    install(api)
    api.served.remove(kinds.FEDERATION)
    assert not await hand.is_kept()


async def test_an_operator_that_is_installed_keeps_every_namespace(
    api: FakeApi, hand: Hand
) -> None:
    install(api)
    assert await hand.is_kept()


async def test_a_definition_alone_keeps_nothing(hand: Hand) -> None:
    assert not await hand.is_kept()


async def test_an_operator_that_is_switched_off_keeps_nothing(api: FakeApi, hand: Hand) -> None:
    install(api, replicas=0)
    hold(api, "it-was", 1)  # it may have gone without a word
    assert not await hand.is_kept()


@pytest.mark.parametrize(("looks_at", "kept"), [("fl", True), ("other", False)])
async def test_an_operator_keeps_only_the_namespaces_that_it_looks_at(
    api: FakeApi, hand: Hand, looks_at: str, *, kept: bool
) -> None:
    install(api, watch_namespaces=("more", looks_at))
    assert await hand.is_kept() is kept


@pytest.mark.parametrize(
    ("holder", "ago_s", "kept"), [("a", 5, True), ("a", 90, False), ("", 5, False)]
)
async def test_an_operator_outside_of_the_hub_is_known_by_its_lease(
    api: FakeApi, hand: Hand, holder: str, ago_s: float, *, kept: bool
) -> None:
    hold(api, holder, ago_s)
    assert await hand.is_kept() is kept


async def test_a_document_on_the_hub_is_never_worked_around(api: FakeApi, hand: Hand) -> None:
    api.put(kinds.FEDERATION, "lab", "fl")
    assert await hand.is_kept()


async def test_who_may_not_look_relies_on_an_operator(api: FakeApi, hand: Hand) -> None:
    api.refusals["GET /apis/apps/v1/deployments"] = (403, "Forbidden")
    assert await hand.is_kept()


async def test_without_an_operator_a_declared_federation_is_taken_apart_from_here(
    api: FakeApi, hand: Hand
) -> None:
    mine = {"labels": {FEDERATION: NAMES.addon}}
    held = {"finalizers": [FINALIZER, "others.example.org/theirs"]}
    api.put(kinds.FEDERATION, "lab", "fl", metadata=held)
    api.put(kinds.SECRET, NAMES.user_secret("owner"), "fl", metadata=mine)
    api.put(kinds.SERVICE, NAMES.service, "fl", metadata=mine)
    api.refusals["DELETE /apis/umbel.dev"] = (200, "held by finalizers")  # it stays for now
    told: list[str] = []
    await hand.down(told.append, keep_data=False)
    assert "from this machine" in told[0]
    assert api.get(kinds.SERVICE, NAMES.service, "fl") is None
    assert api.get(kinds.SECRET, NAMES.user_secret("owner"), "fl") is None
    left = api.get(kinds.FEDERATION, "lab", "fl")
    assert left is not None
    assert left["metadata"]["finalizers"] == ["others.example.org/theirs"]
