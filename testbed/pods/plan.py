"""Which name and which address every node has: decided here, done elsewhere."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from testbed.layout import Layout

PREFIX = "umbel-tb"
SWITCH = f"{PREFIX}-switch"
GATEWAY = "10.81.255.254"  # the switch: API servers are reached here
NODES = "10.81.0.0/16"
MAX_CLUSTERS = 100
MAX_NODES = 200


@dataclass(frozen=True)
class NodePlan:
    """One node: the index-th of the cluster with this number, both decide its addresses."""

    cluster: str
    number: int
    index: int
    prefix: str = PREFIX

    def __post_init__(self) -> None:
        if not 0 <= self.number < MAX_CLUSTERS or not 1 <= self.index <= MAX_NODES:
            message = f"no address for node {self.index} of cluster number {self.number}"
            raise ValueError(message)

    @property
    def name(self) -> str:
        """The name Kubernetes knows it by."""
        return f"{self.cluster}-{self.index}"

    @property
    def namespace(self) -> str:
        """Its network namespace, and its control group: unique on the machine."""
        return f"{self.prefix}-{self.name}"

    @property
    def link(self) -> str:
        """Its port in the switch: link names have fifteen letters at most."""
        return f"v{self.number}x{self.index}"

    @property
    def address(self) -> str:
        return f"10.81.{self.number}.{self.index}"

    @property
    def site(self) -> str:
        """Addresses of all nodes of its cluster."""
        return f"10.81.{self.number}.0/24"

    @property
    def pods(self) -> str:
        """Addresses of its pods."""
        return f"10.{128 + self.number}.{self.index}.0/24"

    @property
    def cluster_pods(self) -> str:
        """Addresses of all pods of its cluster."""
        return f"10.{128 + self.number}.0.0/16"


def nodes_of(layout: Layout, cluster: str) -> list[NodePlan]:
    """Give the real nodes of a cluster; none where they are simulated."""
    number = list(layout.clusters).index(cluster)
    count = layout.nodes.get(cluster, 0)
    return [NodePlan(cluster, number, index) for index in range(1, count + 1)]


def first_service(service_range: str) -> str:
    """Give the address under which pods find the API: the first of the services."""
    return str(ipaddress.ip_network(service_range)[1])


def api_names(service_range: str) -> tuple[str, ...]:
    """Give what an API server's certificate must name beside loopback, so that pods trust it."""
    return (
        GATEWAY,
        first_service(service_range),
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    )
