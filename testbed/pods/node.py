"""Nodes: containerd, kubelet and kube-proxy in namespaces and control groups of their own."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from testbed.api import Api, condition
from testbed.certificates import Authority, write_kubeconfig
from testbed.errors import CannotRun
from testbed.pods import cgroups, images, network, settings
from testbed.pods.commands import CommandFailed, run
from testbed.pods.plan import GATEWAY, PREFIX, SWITCH, NodePlan
from testbed.pods.settings import NodeFiles
from testbed.processes import Processes, Record
from testbed.programs import program
from testbed.waiting import eventually

TOOLS = ("ip", "nsenter", "unshare", "iptables", "conntrack", "dpkg-deb", "apt-get")
PATIENCE_S = 60


class ControlPlane(Protocol):
    """What nodes need to know of the cluster they join."""

    @property
    def name(self) -> str: ...
    @property
    def number(self) -> int:
        """Different for every cluster, from 0: decides the addresses."""
        ...

    @property
    def port(self) -> int:
        """Where its API server listens, on loopback."""
        ...

    @property
    def authority(self) -> Authority: ...
    @property
    def kubeconfig(self) -> Path:
        """For an administrator, over loopback."""
        ...


@dataclass(frozen=True)
class Node:
    """A node that was started."""

    plan: NodePlan
    files: NodeFiles


class ToolsMissing(CannotRun):
    def __init__(self, missing: list[str]) -> None:
        super().__init__(
            f"real containers cannot run here, for want of: {', '.join(missing)}",
            hint="as root on Debian: apt-get install --no-install-recommends "
            "runc containernetworking-plugins iptables conntrack iproute2",
        )


def assert_can_run() -> None:
    """Say at once what this machine lacks for nodes with real containers."""
    missing = [] if os.geteuid() == 0 else ["root"]
    missing += [tool for tool in TOOLS if shutil.which(tool) is None]
    files = (settings.RUNC, settings.CNI_PLUGINS / "bridge", cgroups.ROOT / "memory")
    missing += [str(path) for path in files if not path.exists()]
    if missing:
        raise ToolsMissing(missing)


class Pods:
    """The nodes of one test bed, of all its clusters."""

    def __init__(self, state: Path, processes: Processes) -> None:
        self.state = state
        self.processes = processes
        self.containerd = program("containerd").parent

    def plan(self, cluster: ControlPlane, index: int) -> NodePlan:
        return NodePlan(cluster.name, cluster.number, index)

    def files(self, plan: NodePlan) -> NodeFiles:
        return NodeFiles(self.state / "nodes" / plan.name)

    def prepare(self, cluster: ControlPlane, nodes: int = 1) -> list[str]:
        """Make the cluster's network and relay; give the flags its API server needs for them.

        Its certificate must name `plan.api_names`, its controller manager run all controllers,
        and it needs a scheduler.
        """
        folder = self.state / "nodes"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        plans = [self.plan(cluster, index) for index in range(1, nodes + 1)]
        for count, plan in enumerate(plans):
            network.plug(plan, plans[:count])
        socket, egress = folder / f"{cluster.name}.sock", folder / f"{cluster.name}.egress"
        egress.write_text(settings.as_text(settings.egress_config(socket)))
        self._start_relay(cluster, plans[0], socket)
        client = cluster.authority.client(
            "kubelet-client", "apiserver-kubelet-client", ["system:masters"]
        )
        return settings.apiserver_flags(egress, client, cluster.authority.certificate_file)

    def add_node(self, cluster: ControlPlane, index: int, archives: Sequence[Path]) -> Node:
        """Start a node of a prepared cluster with these images; it is Ready when this ends."""
        plan = self.plan(cluster, index)
        node = Node(plan, self.files(plan))
        self._write(node, cluster)
        procs = cgroups.make(plan.namespace)
        mounts = self._start_mounts(node, procs)
        config = f"--config={node.files.containerd_config}"
        self._start(node, mounts, "containerd", str(self.containerd / "containerd"), config)
        eventually(f"containerd of {plan.name}", lambda: self._answers(node), PATIENCE_S)
        images.load(archives, program("ctr"), [node.files.socket])
        kubelet = settings.kubelet_flags(plan, node.files)
        self._start(node, mounts, "kubelet", str(program("kubelet")), *kubelet)
        proxy = settings.proxy_flags(plan, node.files)
        self._start(node, mounts, "kube-proxy", str(program("kube-proxy")), *proxy)
        self.wait(cluster, node)
        return node

    def wait(self, cluster: ControlPlane, node: Node) -> None:
        """Wait until Kubernetes says that the node is Ready."""
        with Api(cluster.kubeconfig) as api:
            ready = ("v1", "Node", node.plan.name, "")
            api.wait(ready, lambda seen: condition(seen, "Ready") == "True", PATIENCE_S)

    def _answers(self, node: Node) -> bool:
        ctr = [str(program("ctr")), "-a", str(node.files.socket), "version"]
        try:
            return node.files.socket.exists() and bool(run(ctr))
        except CommandFailed:
            return False

    def _start_relay(self, cluster: ControlPlane, first: NodePlan, socket: Path) -> None:
        procs = cgroups.tracker(f"{PREFIX}-{cluster.name}-relay")
        argv = [sys.executable, "-m", "testbed.pods.relay", str(cluster.port), SWITCH]
        argv += [first.namespace, str(socket)]
        env = {"PYTHONPATH": str(images.PROJECT)}
        name = f"{cluster.name}-relay"
        self.processes.start(name, [*cgroups.joining(procs), *argv], env)
        eventually(name, socket.exists, PATIENCE_S)

    def _write(self, node: Node, cluster: ControlPlane) -> None:
        """Write every file of the node."""
        plan, files, authority = node.plan, node.files, cluster.authority
        files.cni.mkdir(mode=0o700, parents=True, exist_ok=True)
        for fixed, mine in files.own().items():
            mine.mkdir(exist_ok=True)
            fixed.mkdir(parents=True, exist_ok=True)
        serving = authority.server(plan.name, [plan.name], [plan.address])
        config = settings.kubelet_config(plan, files, authority.certificate_file, serving)
        files.kubelet_config.write_text(settings.as_text(config))
        files.containerd_config.write_text(settings.containerd_config(files))
        pods = settings.as_text(settings.cni_config(plan, files))
        (files.cni / "10-pods.conflist").write_text(pods)
        server = f"https://{GATEWAY}:{cluster.port}"
        for path, user, groups in (
            (files.kubelet_access, f"system:node:{plan.name}", ["system:nodes"]),
            (files.proxy_access, "system:kube-proxy", []),
        ):
            pair = authority.client(f"{plan.name}-{path.stem}", user, groups)
            write_kubeconfig(path, server, authority.certificate_file, *pair)

    def _start_mounts(self, node: Node, procs: Path) -> Record:
        """Start the process that holds the node's mount namespace."""
        node.files.ready.unlink(missing_ok=True)
        script = settings.mount_script(node.files)
        argv = [*cgroups.joining(procs), "unshare", "--mount", "sh", "-c", script]
        record = self.processes.start(f"{node.plan.name}-mounts", argv)
        eventually(f"mounts of {node.plan.name}", node.files.ready.exists, PATIENCE_S)
        return record

    def _start(self, node: Node, mounts: Record, what: str, *argv: str) -> None:
        """Start a daemon inside the node's namespaces and control group."""
        inside = ["nsenter", f"--net={network.NAMESPACES / node.plan.namespace}"]
        inside += [f"--mount=/proc/{mounts.pid}/ns/mnt", "--"]
        procs = cgroups.tracker(node.plan.namespace)
        path = f"{self.containerd}:{os.environ['PATH']}"
        command = [*cgroups.joining(procs), *inside, *argv]
        self.processes.start(f"{node.plan.name}-{what}", command, {"PATH": path})


def load_images(state: Path, archives: Sequence[Path]) -> None:
    """Load images into the containerd of every node of a running test bed."""
    images.load(archives, program("ctr"), sorted((state / "nodes").glob("*/cd.sock")))


def clean(state: Path, prefix: str = PREFIX) -> None:
    """Remove every trace of nodes, of this run or of one that crashed."""
    cgroups.remove_all(prefix=prefix)
    network.remove_all(prefix)
    nodes = state / "nodes"
    shutil.rmtree(nodes, ignore_errors=True)
    for fixed in NodeFiles(nodes).own():
        if fixed.name != "log" and fixed.is_dir() and not any(fixed.iterdir()):
            fixed.rmdir()


def leftovers(prefix: str = PREFIX) -> list[str]:
    """Name what of ours is on the machine: nothing, after a clean end."""
    return [*network.ours(prefix), *(str(group) for group in cgroups.ours(prefix=prefix))]
