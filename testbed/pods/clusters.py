"""Real nodes for the clusters of a test bed: what is done at each step of bringing one up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from testbed.certificates import Authority
from testbed.commands import Command
from testbed.layout import Layout
from testbed.pods import control
from testbed.pods.node import Node, Pods
from testbed.ports import free_ports
from testbed.processes import Processes
from testbed.programs import program


@dataclass(frozen=True)
class Cluster:
    """A control plane as nodes see it."""

    name: str
    number: int
    port: int
    authority: Authority
    kubeconfig: Path


class RealNodes:
    """So many nodes for each cluster, with these images."""

    def __init__(self, layout: Layout, processes: Processes, archive: Path, each: int = 1) -> None:
        self.layout = layout
        self.pods = Pods(layout.state, processes)
        self.archive = archive
        self.each = each
        self.clusters: dict[str, Cluster] = {}

    def apiserver(self, name: str, authority: Authority, command: Command) -> Command:
        """Make the cluster's network first; give the command of an API server that knows it."""
        number = list(self.layout.clusters).index(name)
        port, kubeconfig = self.layout.clusters[name].api, self.layout.kubeconfig(name)
        cluster = self.clusters[name] = Cluster(name, number, port, authority, kubeconfig)
        return control.apiserver(command, self.pods.prepare(cluster, self.each))

    def controllers(self, command: Command) -> Command:
        """Give the command of a controller manager that serves real nodes."""
        return control.controllers(command)

    def join(self, name: str) -> list[Node]:
        """Start the cluster's scheduler and its nodes; all are Ready when this ends."""
        cluster = self.clusters[name]
        path, port = program("kube-scheduler"), free_ports(1)[0]
        command = control.scheduler(name, path, cluster.kubeconfig, port)
        self.pods.processes.start(command.name, command.argv, command.env)
        nodes = range(1, self.each + 1)
        return [self.pods.add_node(cluster, index, self.archive) for index in nodes]
