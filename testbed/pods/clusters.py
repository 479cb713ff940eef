"""Real nodes for the clusters of a test bed: what is done at each step of bringing one up."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from testbed.api import Api
from testbed.certificates import Authority
from testbed.commands import Command
from testbed.layout import Layout
from testbed.pods import cgroups, control, dns, images, storage
from testbed.pods.node import Pods
from testbed.pods.plan import PREFIX, NodePlan, nodes_of
from testbed.ports import free_ports
from testbed.processes import Processes
from testbed.programs import program

READY_S = 120
AT_ONCE = 4  # nodes that start side by side


@dataclass(frozen=True)
class Cluster:
    """A control plane as nodes see it."""

    name: str
    number: int
    port: int
    authority: Authority
    kubeconfig: Path


class RealNodes:
    """As many nodes for each cluster as the layout says, with these images."""

    def __init__(self, layout: Layout, processes: Processes, archives: Sequence[Path]) -> None:
        self.layout = layout
        self.pods = Pods(layout.state, processes)
        self.archives = archives
        self.clusters: dict[str, Cluster] = {}

    def apiserver(self, name: str, authority: Authority, command: Command) -> Command:
        """Make the cluster's network first; give the command of an API server that knows it."""
        number = list(self.layout.clusters).index(name)
        port, kubeconfig = self.layout.clusters[name].api, self.layout.kubeconfig(name)
        cluster = self.clusters[name] = Cluster(name, number, port, authority, kubeconfig)
        return control.apiserver(command, self.pods.prepare(cluster, self.layout.nodes[name]))

    def controllers(self, command: Command) -> Command:
        """Give the command of a controller manager that serves real nodes."""
        return control.controllers(command)

    def join(self) -> None:
        """Start every cluster's scheduler and all nodes, side by side; they are Ready at the end."""
        for name, cluster in self.clusters.items():
            path, port = program("kube-scheduler"), free_ports(1)[0]
            command = control.scheduler(name, path, cluster.kubeconfig, port)
            self.pods.processes.start(command.name, command.argv, command.env)

        def add(node: NodePlan) -> None:
            self.pods.add_node(self.clusters[node.cluster], node.index, self.archives)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            nodes = [node for name in self.clusters for node in nodes_of(self.layout, name)]
            list(pool.map(add, nodes))

    def give(self, name: str, capacity: Mapping[str, str]) -> None:
        """Let the cluster's first node have this too: it is counted, no device stands behind."""
        node = nodes_of(self.layout, name)[0]
        with Api(self.clusters[name].kubeconfig) as api:
            has = {"capacity": dict(capacity), "allocatable": dict(capacity)}
            api.patch(f"/api/v1/nodes/{node.name}/status", {"status": has})

    def serve(self) -> None:
        """Start what serves the pods of all clusters; names are known when this ends."""
        self._start("volumes", "testbed.pods.storage")
        self._start("policies", "testbed.pods.policing")
        for (
            cluster
        ) in self.clusters.values():  # not sooner: without a node a pod waits for its turn
            with Api(cluster.kubeconfig) as api:
                for one in (storage.storage_class(), *dns.objects()):
                    api.apply(one)
        for cluster in self.clusters.values():
            with Api(cluster.kubeconfig) as api:
                names = ("apps/v1", "Deployment", dns.NAME, dns.NAMESPACE)
                api.wait(names, lambda seen: seen.get("status", {}).get("readyReplicas"), READY_S)

    def _start(self, name: str, module: str) -> None:
        procs = cgroups.tracker(f"{PREFIX}-{name}")
        argv = [sys.executable, "-m", module, str(self.layout.state)]
        env = {"PYTHONPATH": str(images.PROJECT)}
        self.pods.processes.start(name, [*cgroups.joining(procs), *argv], env)
