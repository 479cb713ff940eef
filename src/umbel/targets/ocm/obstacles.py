"""What stands in a federation's way on a hub: looked for before anything is made."""

from __future__ import annotations

from umbel.errors import WorldError
from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.client import Kube
from umbel.kube.kinds import Object
from umbel.model.federation import Federation, Group
from umbel.model.status import Condition
from umbel.targets.ocm import choosing
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.seeing import condition_of
from umbel.targets.ocm.settings import OcmSettings

NEEDED = (kinds.PLACEMENT, kinds.ADDON, kinds.TEMPLATE, kinds.INSTALLED, kinds.WORK)


class OcmMissing(WorldError):
    """The hub does not serve what Open Cluster Management brings."""

    code = "U255"

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"the hub does not serve {kind}: Open Cluster Management is missing or too old",
            hint="install OCM 1.2 or newer on the hub (clusteradm init), or check the kubeconfig",
        )


class Obstacles:
    """Looks for what would stop a federation halfway."""

    def __init__(self, kube: Kube, cache: Cache, names: Names, settings: OcmSettings) -> None:
        self._kube = kube
        self._cache = cache
        self._names = names
        self._settings = settings
        self._served = False
        self.found: list[Condition] = []

    async def look(self, federation: Federation) -> None:
        """Refuse what cannot begin; note what can be waited for."""
        if not self._served:
            for kind in NEEDED:
                if not await self._kube.serves(kind):
                    raise OcmMissing(kind.name)
            self._served = True
        self.found = [c for g in federation.spec.groups for c in await self._group(g)]

    async def _group(self, group: Group) -> list[Condition]:
        found = []
        for cluster_set in choosing.cluster_sets(group):
            condition = await self._bound(group, cluster_set)
            if condition is not None:
                found.append(condition)
        return found or self._placed(group)

    async def _bound(self, group: Group, cluster_set: str) -> Condition | None:
        namespace = self._names.namespace
        placement = self._cache[kinds.PLACEMENT].get(self._names.placement(group.name), namespace)
        if placement is not None and _decided(placement):
            return None  # OCM looked at the sets already
        if await self._kube.get(kinds.CLUSTER_SET, cluster_set) is None:
            return Condition(
                "ClustersChosen",
                "False",
                "UnknownClusterSet",
                f"group {group.name}: there is no cluster set {cluster_set!r}",
                "kubectl get managedclustersets lists them",
            )
        bound = await self._kube.get(kinds.BINDING, cluster_set, namespace)
        if bound is None and not self._settings.binds(cluster_set):
            return Condition(
                "ClustersChosen",
                "False",
                "BindingMissing",
                f"group {group.name}: cluster set {cluster_set!r} is not bound to {namespace}",
                f"clusteradm clusterset bind {cluster_set} --namespace {namespace}",
            )
        return None

    def _placed(self, group: Group) -> list[Condition]:
        name = self._names.placement(group.name)
        placement = self._cache[kinds.PLACEMENT].get(name, self._names.namespace)
        if placement is None:
            return []
        wrong = condition_of(placement, "PlacementMisconfigured")
        if wrong.get("status") == "True":
            words = f"group {group.name}: {wrong.get('message', '')}"
            hint = "mend the group's placement"
            return [Condition("ClustersChosen", "False", "PlacementMisconfigured", words, hint)]
        satisfied = condition_of(placement, "PlacementSatisfied")
        chosen = placement.get("status", {}).get("numberOfSelectedClusters") or 0
        if satisfied and not chosen:
            words = f"group {group.name}: {satisfied.get('message') or 'no cluster matches'}"
            hint = "kubectl get managedclusters --show-labels shows what there is to match"
            return [Condition("ClustersChosen", "False", "NothingMatches", words, hint)]
        return []


def _decided(placement: Object) -> bool:
    return bool(placement.get("status", {}).get("numberOfSelectedClusters"))
