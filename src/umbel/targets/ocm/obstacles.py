"""What stands in a federation's way on a hub: looked for before anything is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from umbel.errors import WorldError
from umbel.kube import kinds
from umbel.kube.cache import Cache
from umbel.kube.client import Kube
from umbel.kube.kinds import Object
from umbel.model.federation import Federation, Group
from umbel.model.kubernetes import HubOnKubernetes
from umbel.model.site import Verdict
from umbel.model.status import Condition
from umbel.targets.ocm import choosing
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.seeing import condition_of
from umbel.targets.ocm.settings import OcmSettings

_ROUTED = ("Accepted", "ResolvedRefs")
_ROUTE = (
    "a Gateway of that name must be there, with a TLS listener in mode Passthrough that admits "
    "routes of this namespace: kubectl describe gateway, kubectl describe tlsroute"
)
_FEWER = (
    "it goes on with those; others join when they match: kubectl get managedclusters --show-labels"
    " (a taint, too, keeps a cluster out)"
)
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
        found = [c for g in federation.spec.groups for c in await self._group(g)]
        found.sort(key=lambda c: c.status)  # what is wrong before what is to be known
        self.found = [*found, *self._routed(federation)]

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
        asked = group.placement.number_of_clusters or 0
        if satisfied and chosen < asked:
            words = f"group {group.name}: {chosen} of {asked} clusters: no other one matches now"
            return [Condition("ClustersChosen", "True", "FewerThanAsked", words, _FEWER)]
        return []

    def _routed(self, federation: Federation) -> list[Condition]:
        """Say what a gateway thinks of the ways in that it was asked for."""
        service = (federation.spec.superlink.kubernetes or HubOnKubernetes()).service
        if service.type != "Gateway" or not self._cache.has(kinds.TLS_ROUTE):
            return []
        gateway = f"{service.gateway_namespace or self._names.namespace}/{service.gateway}"
        found = []
        for route in self._cache[kinds.TLS_ROUTE].of(self._names.addon):
            name, parents = route["metadata"]["name"], route.get("status", {}).get("parents") or ()
            said = [c for parent in parents for c in parent.get("conditions") or ()]
            wrong = [c for c in said if c["type"] in _ROUTED and c["status"] == "False"]
            if wrong:
                words = f"TLSRoute {name}: {wrong[0].get('message') or wrong[0].get('reason')}"
                found.append(Condition("EndpointKnown", "False", "RouteRefused", words, _ROUTE))
            elif not said:
                words = f"TLSRoute {name} waits for gateway {gateway} to take it"
                found.append(Condition("EndpointKnown", "True", "RoutePending", words, _ROUTE))
        return sorted(found, key=lambda c: c.status)


def unused_values(
    federation: Federation, placed: Mapping[str, Sequence[Verdict]]
) -> list[Condition]:
    """Name clusters that have values of their own and are not used: perhaps a slip in a name."""
    found = []
    for group in federation.spec.groups:
        own = group.kubernetes.clusters if group.kubernetes else {}
        used = {v.site for v in placed.get(group.name, ()) if v.chosen} if own else set()
        if unused := sorted(own.keys() - used):
            words = f"group {group.name} has values for clusters that it does not use: "
            words += ", ".join(unused[:5]) + (" …" if len(unused) > 5 else "")  # noqa: PLR2004
            hint = "kubernetes.clusters has the names that kubectl get managedclusters shows"
            found.append(Condition("ClusterValuesUsed", "True", "SomeUnused", words, hint))
    return found


def _decided(placement: Object) -> bool:
    return bool(placement.get("status", {}).get("numberOfSelectedClusters"))
