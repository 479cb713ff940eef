"""Sends environments of apps to clusters, and says how far that is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.client import Kube
from umbel.kube.kinds import Object
from umbel.model.federation import Federation
from umbel.model.status import Condition
from umbel.targets.ocm import environments
from umbel.targets.ocm.environments import Sent
from umbel.targets.ocm.names import PART, Names
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
        declared = environments.sent_by(federation, self._names, image)
        self._refused = [bad for one in declared if (bad := _unfit(one)) is not None]
        unfit = {bad.message.partition(":")[0] for bad in self._refused}
        self._sent = [one for one in declared if one.environment.name not in unfit]
        if declared and not await self._is_served():
            self._sent, self._refused = (), [_off("the hub does not serve the kind")]
        for one in self._sent:
            await self._writer.have(environments.placement(one))
            await self._writer.have(environments.work_set(one))
        await self._call_back({one.name for one in self._sent})

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
        judged = [self._judge(one) for one in self._sent]
        bad = next((c for c in judged if c.status != "True"), None)
        words = "; ".join(c.message for c in judged)
        if bad is not None:
            return [Condition(_SENT, bad.status, bad.reason, words, bad.hint)]
        return [Condition(_SENT, "True", "Sent", words)]

    def _judge(self, one: Sent) -> Condition:
        name = one.environment.name
        found = self._cache[kinds.WORK_SET].get(one.name, one.names.namespace)
        chosen = self._cache[kinds.PLACEMENT].get(one.name, one.names.namespace)
        if found is None or chosen is None:
            return Condition(_SENT, "False", "Sending", f"{name}: on its way")
        if not found.get("status"):
            if _age_s(found) > REACTS_IN_S:
                return _off("nothing on the hub reacts to it")
            return Condition(_SENT, "False", "Sending", f"{name}: on its way")
        wanted = chosen.get("status", {}).get("numberOfSelectedClusters") or 0
        if not wanted:
            hint = "its groups' sites are chosen first; then look at its predicates"
            return Condition(_SENT, "False", "NothingMatches", f"{name}: on no cluster", hint)
        return _progress(one, found, wanted)


def _progress(one: Sent, found: Object, wanted: int) -> Condition:
    summary = found["status"].get("summary") or {}
    total, busy = int(summary.get("total") or 0), int(summary.get("progressing") or 0)
    failed = int(summary.get("degraded") or 0)
    words = f"{one.environment.name}: on {max(0, total - busy)} of {wanted} clusters"
    label = (
        f"work.open-cluster-management.io/manifestworkreplicaset={one.names.namespace}.{one.name}"
    )
    hint = f"kubectl get manifestworks -A -l {label} -o yaml"
    if failed:
        return Condition(_SENT, "False", "ExecutorsFail", f"{words}, fails on {failed}", hint)
    done = condition_of(found, "PlacementRolledOut").get("status") == "True"
    if not done or total < wanted or busy:
        return Condition(_SENT, "False", "Sending", words, hint)
    return Condition(_SENT, "True", "Sent", words)


def _unfit(one: Sent) -> Condition | None:
    """Say why one pod for all clusters cannot be; nothing of such an environment is made."""
    name = one.environment.name
    if unknown := set(one.environment.groups) - {g.name for g in one.federation.spec.groups}:
        words = f"{name}: there is no group {', '.join(sorted(unknown))}"
        return Condition(_SENT, "False", "UnknownGroup", words, "spec.groups has their names")
    if len(one.data_paths) > 1:
        words = f"{name}: its sites have their data in different folders"
        hint = "one environment for each folder, with groups or predicates of its own"
        return Condition(_SENT, "False", "DataDiffers", words, hint)
    return None


def _off(why: str) -> Condition:
    words = f"environments cannot be sent by ManifestWorkReplicaSet: {why}"
    return Condition(_SENT, "False", "ManifestWorkReplicaSetOff", words, _OFF)


def _age_s(content: Object) -> float:
    made = content["metadata"].get("creationTimestamp")
    return (datetime.now(UTC) - datetime.fromisoformat(made)).total_seconds() if made else 0.0
