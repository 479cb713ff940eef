"""Versions reach clusters batch by batch, are gated on health, and are taken back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from tests.unit.kube.fake_api import FakeApi, kept_up

from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.model.federation import Federation
from umbel.model.site import Verdict
from umbel.targets.ocm import sites
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.releases import Releases
from umbel.targets.ocm.watching import ADDON_NAME, watched
from umbel.targets.ocm.writing import Writer

NAMES = Names("fl", "lab")
CLUSTERS = ("a", "b", "c", "d")
LONG_AGO = (datetime.now(UTC) - timedelta(hours=1)).isoformat(timespec="seconds")


def document(image: str, **rollout: Any) -> Federation:
    group = {"name": "all", "on": "ocm", "kubernetes": {"rollout": rollout}}
    return Federation.model_validate(
        {
            "metadata": {"name": "lab", "namespace": "fl"},
            "spec": {
                "superlink": {"on": "ocm"},
                "groups": [group],
                "runtime": {"image": {"name": image}},
            },
        }
    )


@dataclass
class Trial:
    """A hub in memory with four clusters, and what is told to it."""

    api: FakeApi
    cache: Cache
    releases: Releases
    groups: tuple[int, ...] = (0, 0, 0, 0)

    async def look(self, federation: Federation) -> None:
        """Do what one look of the operator does."""
        group = federation.spec.groups[0]
        version = sites.Version(federation, NAMES, group, "umbel:0", "PEM")
        await self.releases.publish([version])
        verdicts = tuple(
            Verdict(site, True, (), decision_index=index)
            for site, index in zip(CLUSTERS, self.groups, strict=True)
        )
        values = {site: self._values(version, site) for site in CLUSTERS}
        outdated = {s: v for s, v in values.items() if self.release(s) != v.release}
        if outdated:
            prints = dict.fromkeys(outdated, "x=1")
            await self.releases.give(federation, outdated, prints, {"all": verdicts})
        await self.releases.tidy()

    def _values(self, version: sites.Version, site: str) -> sites.SiteValues:
        return sites.SiteValues(
            names=NAMES,
            cluster=site,
            group="all",
            node={"fleet": "hub:9092", "nodeConfig": {}},
            settings=version.settings,
            template=self.releases.template("all"),
        )

    def given(self, site: str) -> sites.Given | None:
        found = self.cache[kinds.INSTALLED].get(NAMES.addon, site)
        return sites.given(found) if found else None

    def release(self, site: str) -> str:
        found = self.given(site)
        return found.release if found else ""

    def running(self, federation: Federation) -> set[str]:
        """Name the clusters that were given this document's version."""
        version = sites.Version(federation, NAMES, federation.spec.groups[0], "umbel:0", "PEM")
        name = sites.template(version)["metadata"]["name"]
        return {s for s in CLUSTERS if (g := self.given(s)) is not None and g.template == name}

    async def well(self, *clusters: str) -> None:
        """Let these sites report that they are online with what they were given."""
        for site in clusters:
            values = [("state", "online"), ("release", self.release(site))]
            said = [{"name": n, "fieldValue": {"type": "String", "string": v}} for n, v in values]
            manifest = {
                "resourceMeta": {"kind": "ConfigMap", "name": sites.SITE},
                "statusFeedback": {"values": said},
            }
            content = self.api.put(
                kinds.WORK,
                "addon",
                site,
                metadata={"labels": {ADDON_NAME: NAMES.addon}},
                status={"resourceStatus": {"manifests": [manifest]}},
            )
            version = str(content["metadata"]["resourceVersion"])
            await self.api.until(partial(self.saw, site, version))

    def saw(self, site: str, version: str) -> bool:
        return self.seen(site) == version

    def seen(self, site: str) -> str:
        found = self.cache[kinds.WORK].get("addon", site)
        return str(found["metadata"]["resourceVersion"]) if found else ""

    async def age(self, *clusters: str) -> None:
        """Let it be an hour since these were given what they have."""
        for site in clusters:
            found = self.cache[kinds.INSTALLED].get(NAMES.addon, site)
            assert found is not None
            found["metadata"]["annotations"]["umbel.dev/given-at"] = LONG_AGO


@pytest.fixture
async def trial() -> AsyncIterator[Trial]:
    api = FakeApi()
    async with api.kube() as kube:
        cache = Cache(kube, watched(), lambda *_: None)
        async with kept_up(cache):
            yield Trial(api, cache, Releases(Writer(kube, cache, NAMES.owner), cache, NAMES))


async def test_new_clusters_are_all_served_at_once(trial: Trial) -> None:
    first = document("umbel:1", maxConcurrent=1)
    await trial.look(first)
    assert trial.running(first) == set(CLUSTERS)


async def test_a_change_goes_on_only_while_those_before_are_well(trial: Trial) -> None:
    first, second = document("umbel:1", maxConcurrent=2), document("umbel:2", maxConcurrent=2)
    await trial.look(first)
    await trial.well(*CLUSTERS)
    await trial.look(second)
    assert trial.running(second) == {"a", "b"}
    await trial.look(second)
    assert trial.running(second) == {"a", "b"}, "nobody reported yet"
    await trial.well("a")
    await trial.look(second)
    assert trial.running(second) == {"a", "b", "c"}
    await trial.well("b", "c")
    await trial.look(second)
    assert trial.running(second) == set(CLUSTERS)


async def test_a_later_decision_group_waits_for_the_earlier_one(trial: Trial) -> None:
    first, second = document("umbel:1", maxConcurrent=4), document("umbel:2", maxConcurrent=4)
    trial.groups = (0, 1, 1, 1)
    await trial.look(first)
    await trial.well(*CLUSTERS)
    await trial.look(second)
    await trial.look(second)
    assert trial.running(second) == {"a"}
    await trial.well("a")
    await trial.look(second)
    assert trial.running(second) == set(CLUSTERS)


async def test_who_says_online_of_another_release_is_not_well(trial: Trial) -> None:
    first, second = document("umbel:1", maxConcurrent=1), document("umbel:2", maxConcurrent=1)
    await trial.look(first)
    await trial.well(*CLUSTERS)  # of the first release
    await trial.look(second)
    await trial.look(second)
    assert trial.running(second) == {"a"}


async def test_who_is_not_seen_by_the_superlink_is_not_well(trial: Trial) -> None:
    first, second = document("umbel:1", maxConcurrent=1), document("umbel:2", maxConcurrent=1)
    await trial.look(first)
    await trial.well(*CLUSTERS)
    await trial.look(second)
    await trial.well("a")
    trial.releases.online = frozenset({"b", "c", "d"})
    await trial.look(second)
    assert trial.running(second) == {"a"}
    trial.releases.online = frozenset(CLUSTERS)
    await trial.look(second)
    assert trial.running(second) == {"a", "b"}


async def test_too_many_failures_turn_everybody_back_and_it_is_not_tried_again(
    trial: Trial,
) -> None:
    first, second = document("umbel:1", maxConcurrent=2), document("umbel:2", maxConcurrent=2)
    await trial.look(first)
    await trial.well(*CLUSTERS)
    before = {site: trial.given(site) for site in CLUSTERS}
    await trial.look(second)
    await trial.well("a")
    await trial.age("b")
    await trial.look(second)
    assert trial.running(first) == set(CLUSTERS)
    assert {s: g.config for s in CLUSTERS if (g := trial.given(s))} == {
        s: g.config for s, g in before.items() if g
    }
    assert [c.reason for c in trial.releases.hindrances] == ["RolloutHalted"]
    await trial.look(second)
    assert trial.running(second) == set()
    (said,) = trial.releases.hindrances
    assert said.reason == "RolloutHalted"
    assert "too many sites failed (b)" in said.message  # a later look still knows who

    third = document("umbel:3", maxConcurrent=4)
    await trial.look(third)
    assert trial.running(third) == set(CLUSTERS)
    assert trial.releases.hindrances[0].reason == "RollingOut"


async def test_as_many_failures_as_allowed_do_not_stop_it(trial: Trial) -> None:
    first = document("umbel:1", maxConcurrent=2, maxFailures=1)
    second = document("umbel:2", maxConcurrent=2, maxFailures=1)
    await trial.look(first)
    await trial.well(*CLUSTERS)
    await trial.look(second)
    await trial.well("a")
    await trial.age("b")
    await trial.look(second)
    assert {"a", "b", "c"} <= trial.running(second)


async def test_versions_that_nobody_has_are_removed_and_the_last_one_stays(trial: Trial) -> None:
    for number in range(3):
        await trial.look(document(f"umbel:{number}", maxConcurrent=4))
        await trial.well(*CLUSTERS)
    await trial.api.until(lambda: len(trial.cache[kinds.TEMPLATE].of(NAMES.addon)) == 2)
    await trial.api.until(lambda: len(trial.cache[kinds.ADDON_CONFIG].of(NAMES.addon)) == 8)


async def test_at_rest_nothing_is_written(trial: Trial) -> None:
    first = document("umbel:1")
    await trial.look(first)
    await trial.well(*CLUSTERS)
    asked = len(trial.api.asked)
    await trial.look(first)
    assert trial.api.asked[asked:] == []
    assert trial.releases.settled(CLUSTERS)
