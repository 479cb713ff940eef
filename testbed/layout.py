"""Where everything of one test bed stands: folders, files, ports."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from testbed.errors import NotUp
from testbed.ports import free_ports
from testbed.programs import cache

HUB = "hub"
_HUB_PORTS = ("etcd", "etcd-peer", "webhooks", "registration", "placement", "addon", "work")


@dataclass(frozen=True)
class Ports:
    """The ports of one cluster's own programs, all on 127.0.0.1."""

    api: int
    controllers: int
    agent: int = 0
    relay: int = 0


@dataclass(frozen=True)
class Layout:
    """One test bed on disk; written before the first process starts."""

    state: Path
    shared: dict[str, int] = field(default_factory=dict)
    clusters: dict[str, Ports] = field(default_factory=dict)
    nodes: dict[str, int] = field(
        default_factory=dict
    )  # real ones of each cluster; none: simulated

    def folder(self, cluster: str) -> Path:
        return self.state / cluster

    def kubeconfig(self, cluster: str) -> Path:
        if cluster not in self.clusters:
            raise NotUp(f"cluster {cluster}")
        return self.folder(cluster) / "admin.kubeconfig"

    def url(self, cluster: str) -> str:
        return f"https://127.0.0.1:{self.clusters[cluster].api}"

    @property
    def spokes(self) -> list[str]:
        return [name for name in self.clusters if name != HUB]

    @property
    def rules(self) -> Path:
        return self.state / "relay.json"

    def orders(self, cluster: str) -> Path:
        return self.folder(cluster) / "orders.json"


def default_state() -> Path:
    return cache() / "state"


def plan(state: Path, spokes: list[str], nodes: dict[str, int] | None = None) -> Layout:
    """Give every program a port of its own and write the plan down."""
    ports = iter(free_ports(len(_HUB_PORTS) + 2 + 4 * len(spokes)))
    layout = Layout(
        state,
        {name: next(ports) for name in _HUB_PORTS},
        {
            HUB: Ports(next(ports), next(ports)),
            **{name: Ports(*(next(ports) for _ in range(4))) for name in spokes},
        },
        nodes or {},
    )
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = {
        "shared": layout.shared,
        "clusters": {n: asdict(p) for n, p in layout.clusters.items()},
        "nodes": layout.nodes,
    }
    (state / "layout.json").write_text(json.dumps(known))
    return layout


def load(state: Path) -> Layout:
    """Read the plan of a test bed that was brought up."""
    try:
        said = json.loads((state / "layout.json").read_text())
    except FileNotFoundError:
        raise NotUp("test bed") from None
    clusters = {name: Ports(**ports) for name, ports in said["clusters"].items()}
    return Layout(state, said["shared"], clusters, said["nodes"])
