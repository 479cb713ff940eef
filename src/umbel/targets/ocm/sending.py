"""Sends environments of apps to clusters, and says how far that is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.client import Kube
from umbel.kube.kinds import Object
from umbel.model.federation import Federation
from umbel.model.kubernetes import Environment
from umbel.model.status import Condition
from umbel.targets.ocm import environments
from umbel.targets.ocm.environments import Sent
from umbel.targets.ocm.names import PART, SITE_GROUP, Names
from umbel.targets.ocm.seeing import condition_of
from umbel.targets.ocm.writing import Writer

REACTS_IN_S = 30.0  # a controller that runs writes a status at once
_SENT = "EnvironmentsSent"
_OFF = (
    "enable the feature gate ManifestWorkReplicaSet: "
    "ClusterManager.spec.workConfiguration.featureGates"
)


class Sending:
    """The environments of one federation."""

    def __init__(self, kube: Kube, writer: Writer, cache: Cache, names: Names) -> None:
        self._kube = kube
        self._writer = writer
        self._cache = cache
        self._names = names
        self._sent: Sequence[Sent] = ()
        self._refused: list[Condition] = []
        self._serves = False

    async def settle(self, federation: Federation, image: str) -> None:
        """Have what is declared on its way, and call back what is not any more."""
        declared = environments.sent_by(federation, self._names, image, self._homes())
        wanted = federation.spec.runtime.environments
        self._refused = [bad for one in wanted if (bad := _unfit(federation, one)) is not None]
        unfit = {bad.message.partition(":")[0] for bad in self._refused}
        self._sent = [one for one in declared if one.environment.name not in unfit]
        if wanted and not await self._is_served():
            self._sent, self._refused = (), [_off("the hub does not serve the kind")]
        for one in self._sent:
            await self._writer.have(environments.placement(one))
            await self._writer.have(environments.work_set(one))
        await self._call_back({one.name for one in self._sent})

    def _homes(self) -> dict[str, str]:
        """Say which group each cluster belongs to."""
        return {
            one["metadata"]["namespace"]: one["metadata"]["labels"].get(SITE_GROUP, "")
            for one in self._cache[kinds.INSTALLED].of(self._names.addon)
        }

    async def _is_served(self) -> bool:
        self._serves = self._serves or await self._kube.serves(kinds.WORK_SET)
        return self._serves

    async def _call_back(self, wanted: set[str]) -> None:
        for kind in (kinds.WORK_SET, kinds.PLACEMENT):
            for found in self._cache[kind].of(self._names.addon):
                meta = found["metadata"]
                own = meta["labels"].get(PART) == "environment"
                if own and meta["name"] not in wanted:
                    await self._writer.gone(kind, found)

    def sites(self) -> dict[str, list[str]]:
        """Say on which clusters the apps that have an environment can run, by app."""
        found: dict[str, set[str]] = {}
        for one in self._sent:
            index = f"{self._names.namespace}/{one.name}"
            clusters = found.setdefault(one.environment.app, set())
            for decision in self._cache[kinds.DECISION].of(index):
                decisions = decision.get("status", {}).get("decisions") or ()
                clusters |= {each["clusterName"] for each in decisions}
        return {app: sorted(clusters) for app, clusters in found.items()}

    def conditions(self) -> list[Condition]:
        """Give one condition: what is wrong first, else how far all of them are."""
        if self._refused:
            return self._refused[:1]
        if not self._sent:
            return []
        named = dict.fromkeys(one.environment.name for one in self._sent)
        judged = [
            self._judge(name, [one for one in self._sent if one.environment.name == name])
            for name in named
        ]
        bad = next((c for c in judged if c.status != "True"), None)
        words = "; ".join(c.message for c in judged)
        if bad is not None:
            return [Condition(_SENT, bad.status, bad.reason, words, bad.hint)]
        return [Condition(_SENT, "True", "Sent", words)]

    def _judge(self, name: str, sent: Sequence[Sent]) -> Condition:
        """Judge an environment by all that it is sent with."""
        found = [self._cache[kinds.WORK_SET].get(one.name, one.names.namespace) for one in sent]
        there = [one for one in found if one is not None]
        chosen = [self._cache[kinds.PLACEMENT].get(one.name, one.names.namespace) for one in sent]
        if silent := [one for one in there if not one.get("status")]:
            if any(_age_s(one) > REACTS_IN_S for one in silent):
                return _off("nothing on the hub reacts to it")
            return Condition(_SENT, "False", "Sending", f"{name}: on its way")
        if len(there) < len(sent) or None in chosen:
            return Condition(_SENT, "False", "Sending", f"{name}: on its way")
        wanted = [_selected(one) for one in chosen if one is not None]
        if not any(wanted):
            hint = "its groups' sites are chosen first; then look at its predicates"
            return Condition(_SENT, "False", "NothingMatches", f"{name}: on no cluster", hint)
        used = [(one, number) for one, number in zip(there, wanted, strict=True) if number]
        return _progress(name, used)


def _selected(placement: Object) -> int:
    return placement.get("status", {}).get("numberOfSelectedClusters") or 0


def _progress(name: str, sent: Sequence[tuple[Object, int]]) -> Condition:
    summaries = [one["status"].get("summary") or {} for one, _ in sent]
    total, busy, failed = (
        sum(int(each.get(key) or 0) for each in summaries)
        for key in ("total", "progressing", "degraded")
    )
    wanted = sum(number for _, number in sent)
    words = f"{name}: on {max(0, total - busy)} of {wanted} clusters"
    sets = [f"{one['metadata']['namespace']}.{one['metadata']['name']}" for one, _ in sent]
    label = f"work.open-cluster-management.io/manifestworkreplicaset in ({','.join(sets)})"
    hint = f"kubectl get manifestworks -A -l '{label}' -o yaml"
    if failed:
        return Condition(_SENT, "False", "ExecutorsFail", f"{words}, fails on {failed}", hint)
    done = all(condition_of(one, "PlacementRolledOut").get("status") == "True" for one, _ in sent)
    if not done or total < wanted or busy:
        return Condition(_SENT, "False", "Sending", words, hint)
    return Condition(_SENT, "True", "Sent", words)


def _unfit(federation: Federation, wanted: Environment) -> Condition | None:
    """Say why it cannot be sent; nothing of such an environment is made."""
    if unknown := set(wanted.groups) - {g.name for g in federation.spec.groups}:
        words = f"{wanted.name}: there is no group {', '.join(sorted(unknown))}"
        return Condition(_SENT, "False", "UnknownGroup", words, "spec.groups has their names")
    return None


def _off(why: str) -> Condition:
    words = f"environments cannot be sent by ManifestWorkReplicaSet: {why}"
    return Condition(_SENT, "False", "ManifestWorkReplicaSetOff", words, _OFF)


def _age_s(content: Object) -> float:
    made = content["metadata"].get("creationTimestamp")
    return (datetime.now(UTC) - datetime.fromisoformat(made)).total_seconds() if made else 0.0
