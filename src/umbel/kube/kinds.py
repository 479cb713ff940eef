"""The kinds of objects that Umbel touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind, as the API names it."""

    api: str
    name: str
    plural: str
    namespaced: bool = True
    older: tuple[str, ...] = ()  # versions of the same form that a cluster may serve instead

    @property
    def root(self) -> str:
        """Where the API serves its group."""
        return f"/api/{self.api}" if "/" not in self.api else f"/apis/{self.api}"

    def path(self, name: str = "", namespace: str | None = None) -> str:
        """Say where the objects, or one of them, are."""
        within = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.root}{within}/{self.plural}" + (f"/{name}" if name else "")


_ADDON = "addon.open-cluster-management.io/v1alpha1"
_CLUSTER = "cluster.open-cluster-management.io"
_GATEWAY = "gateway.networking.k8s.io"

NAMESPACE = Kind("v1", "Namespace", "namespaces", namespaced=False)
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
SECRET = Kind("v1", "Secret", "secrets")
SERVICE = Kind("v1", "Service", "services")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
POD = Kind("v1", "Pod", "pods")
CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
EVENT = Kind("v1", "Event", "events")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
INGRESS = Kind("networking.k8s.io/v1", "Ingress", "ingresses")
TLS_ROUTE = Kind(
    f"{_GATEWAY}/v1",
    "TLSRoute",
    "tlsroutes",
    older=(f"{_GATEWAY}/v1alpha3", f"{_GATEWAY}/v1alpha2"),
)
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
FEDERATION = Kind("umbel.dev/v1alpha1", "Federation", "federations")
ADDON = Kind(_ADDON, "ClusterManagementAddOn", "clustermanagementaddons", namespaced=False)
TEMPLATE = Kind(_ADDON, "AddOnTemplate", "addontemplates", namespaced=False)
ADDON_CONFIG = Kind(_ADDON, "AddOnDeploymentConfig", "addondeploymentconfigs")
INSTALLED = Kind(_ADDON, "ManagedClusterAddOn", "managedclusteraddons")
CLUSTER = Kind(f"{_CLUSTER}/v1", "ManagedCluster", "managedclusters", namespaced=False)
CLUSTER_SET = Kind(
    f"{_CLUSTER}/v1beta2", "ManagedClusterSet", "managedclustersets", namespaced=False
)
BINDING = Kind(f"{_CLUSTER}/v1beta2", "ManagedClusterSetBinding", "managedclustersetbindings")
SCORE = Kind(f"{_CLUSTER}/v1alpha1", "AddOnPlacementScore", "addonplacementscores")
PLACEMENT = Kind(f"{_CLUSTER}/v1beta1", "Placement", "placements")
DECISION = Kind(f"{_CLUSTER}/v1beta1", "PlacementDecision", "placementdecisions")
WORK = Kind("work.open-cluster-management.io/v1", "ManifestWork", "manifestworks")
WORK_SET = Kind(
    "work.open-cluster-management.io/v1alpha1",
    "ManifestWorkReplicaSet",
    "manifestworkreplicasets",
)

EVERY = tuple(value for value in list(globals().values()) if isinstance(value, Kind))
BY_NAME = {(api, kind.name): kind for kind in EVERY for api in (kind.api, *kind.older)}


def kind_of(content: Object) -> Kind:
    """Find the kind of an object."""
    return BY_NAME[content["apiVersion"], content["kind"]]
