"""Keeps the packet filter of every node as the network policies of its cluster say.

python -m testbed.pods.policing STATE
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

from testbed.api import Api, Object
from testbed.layout import load
from testbed.pods.commands import run
from testbed.pods.network import entering
from testbed.pods.plan import NodePlan, nodes_of
from testbed.pods.policies import World, table
from testbed.watching import Watch, tend

WATCHED = {
    "pods": "/api/v1/pods",
    "spaces": "/api/v1/namespaces",
    "policies": "/apis/networking.k8s.io/v1/networkpolicies",
}


class Police:
    """The nodes of one cluster."""

    def __init__(self, nodes: list[NodePlan], folder: Path) -> None:
        self.nodes = nodes
        self.folder = folder
        self._seen: dict[str, list[Object]] = {}
        self._said: dict[str, str] = {}
        self._alone = threading.Lock()

    def told(self, kind: str) -> Callable[[Api, list[Object]], None]:
        """Give what is to be done when the list of this kind has changed."""

        def work(_: Api, items: list[Object]) -> None:
            with self._alone:
                self._seen[kind] = items
                if self._seen.keys() == WATCHED.keys():
                    self._enforce()

        return work

    def _enforce(self) -> None:
        world = World.of(**self._seen)
        for node in self.nodes:
            text = table(world, node.name)
            if text == self._said.get(node.name):
                continue
            path = self.folder / f"{node.name}.policies"
            path.write_text(text)
            run([*entering(node.namespace), "iptables-restore", "-w", "10", str(path)])
            self._said[node.name] = text


def main(state: Path) -> None:
    """Police every cluster that has nodes, until SIGTERM."""
    layout = load(state)
    watches = []
    for name in layout.nodes:
        police = Police(nodes_of(layout, name), state / "nodes")
        kubeconfig = layout.kubeconfig(name)
        watches += [Watch(kubeconfig, path, police.told(kind)) for kind, path in WATCHED.items()]
    tend(watches)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
