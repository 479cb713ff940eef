"""Brings a hub and its spokes up, in the order in which they need each other."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed import certificates, commands, objects, relay
from testbed.api import Api, condition
from testbed.certificates import Authority
from testbed.commands import BOOTSTRAP_USER, Command
from testbed.fleet import Cluster, Fleet
from testbed.layout import HUB, Layout
from testbed.pods.clusters import RealNodes
from testbed.pods.plan import GATEWAY
from testbed.processes import Processes, Record
from testbed.programs import definitions, program
from testbed.waiting import eventually

Tell = Callable[[str], None]
AT_ONCE = 4  # API servers that start side by side
CLUSTER_API = "cluster.open-cluster-management.io/v1"
READY_SECONDS = 120.0
JOIN_SECONDS = 180.0


def bring_up(
    layout: Layout, processes: Processes, fleet: Fleet, tell: Tell, real: RealNodes | None = None
) -> None:
    """Start everything; come back when every cluster is Available and looks as the fleet says."""
    authorities = {name: _identities(layout, name) for name in layout.clusters}
    _start(processes, commands.etcd(layout, program))
    tell("API server of the hub")
    _start(processes, _apiserver(layout, HUB, authorities[HUB], real))
    _relay(layout, processes)
    with Api(layout.kubeconfig(HUB)) as hub:
        _await("the API server of the hub", hub.is_ready, processes, READY_SECONDS)
        _start(processes, _controllers(layout, HUB, real))
        tell("OCM on the hub")
        _ocm_hub(layout, processes, hub)
        for first in range(0, len(fleet.clusters), AT_ONCE):
            batch = fleet.clusters[first : first + AT_ONCE]
            tell(", ".join(cluster.name for cluster in batch))
            _spokes(layout, processes, batch, authorities, real)
        if real:
            tell("nodes")
            real.join()
            for cluster in fleet.clusters:
                if cluster.capacity:
                    real.give(cluster.name, cluster.capacity)
            real.serve()
        tell("clusters join")
        _await_join(hub, processes, fleet)
        _await_claims(hub, fleet)


def _identities(layout: Layout, cluster: str) -> Authority:
    """Write the cluster's authority, certificates, keys and its administrator's kubeconfig."""
    folder = layout.folder(cluster)
    authority = Authority(folder, cluster)
    authority.server("apiserver", addresses=(*certificates.SERVER_ADDRESSES, GATEWAY))
    tokens = certificates.new_key()
    certificates.write_key(folder / "sa.key", tokens)
    certificates.write_public_key(folder / "sa.pub", tokens)
    pair = authority.client("admin", "admin", ["system:masters"])
    certificates.write_kubeconfig(
        layout.kubeconfig(cluster), layout.url(cluster), authority.certificate_file, *pair
    )
    return authority


def _apiserver(
    layout: Layout, cluster: str, authority: Authority, real: RealNodes | None
) -> Command:
    plain = commands.apiserver(layout, cluster, program)
    return real.apiserver(cluster, authority, plain) if real else plain


def _controllers(layout: Layout, cluster: str, real: RealNodes | None) -> Command:
    plain = commands.controllers(layout, cluster, program)
    return real.controllers(plain) if real else plain


def _start(processes: Processes, command: Command) -> Record:
    return processes.start(command.name, command.argv, command.env)


def _await(what: str, look: Callable[[], bool], processes: Processes, seconds: float) -> None:
    """Wait, but not for the dead: a process that ended says why."""

    def looked() -> bool:
        for record in processes.all():
            processes.assert_runs(record)
        return look()

    eventually(what, looked, seconds)


def _relay(layout: Layout, processes: Processes) -> None:
    links = {name: relay.Link(layout.clusters[name].relay) for name in layout.spokes}
    relay.write_rules(layout.rules, relay.Rules(layout.clusters[HUB].api, links))
    _start(processes, commands.relay(layout))


def _ocm_hub(layout: Layout, processes: Processes, hub: Api) -> None:
    authority = Authority(layout.folder(HUB) / "webhooks", "webhooks")
    authority.server("tls")
    bundle = authority.certificate_file.read_bytes()
    port = layout.shared["webhooks"]
    address = f"https://127.0.0.1:{port}"
    for name in objects.HUB_NAMESPACES:
        hub.apply(objects.namespace(name))
    for definition in objects.hub_definitions(definitions(), address, bundle):
        hub.apply(definition)
    for right in objects.bootstrap():
        hub.apply(right)
    _start(processes, commands.webhooks(layout, program))
    _await("an answer of OCM's webhooks", lambda: _listens(port), processes, READY_SECONDS)
    for hook in objects.admission(address, bundle):
        hub.apply(hook)
    for command in commands.ocm_hub(layout, program):
        _start(processes, command)


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _spokes(
    layout: Layout,
    processes: Processes,
    clusters: tuple[Cluster, ...],
    authorities: dict[str, Authority],
    real: RealNodes | None,
) -> None:
    for cluster in clusters:
        name = cluster.name
        _start(processes, _apiserver(layout, name, authorities[name], real))
    for cluster in clusters:
        with Api(layout.kubeconfig(cluster.name)) as api:
            _await(f"the API server of {cluster.name}", api.is_ready, processes, READY_SECONDS)
            _start(processes, _controllers(layout, cluster.name, real))
            for name in objects.SPOKE_NAMESPACES:
                api.apply(objects.namespace(name))
            for definition in objects.spoke_definitions(definitions()):
                api.apply(definition)
            for name, value in cluster.claims.items():
                api.apply(objects.claim(name, value))
        if real is None:
            _start(processes, commands.kubelet(layout, cluster.name, cluster.capacity))
        _bootstrap_kubeconfig(layout, cluster.name, authorities[HUB])
        (layout.folder(cluster.name) / "agent").mkdir()
        _start(processes, commands.agent(layout, cluster.name, program))


def _bootstrap_kubeconfig(layout: Layout, cluster: str, hub: Authority) -> Path:
    """Let the agent ask to join, through the relay: what it is given later keeps that way."""
    pair = hub.client(f"bootstrap-{cluster}", BOOTSTRAP_USER)
    return certificates.write_kubeconfig(
        layout.folder(cluster) / "bootstrap.kubeconfig",
        f"https://127.0.0.1:{layout.clusters[cluster].relay}",
        hub.certificate_file,
        *pair,
    )


def _await_join(hub: Api, processes: Processes, fleet: Fleet) -> None:
    """Accept every cluster that asks, give it its labels, wait until all are Available."""
    labels = {cluster.name: cluster.labels for cluster in fleet.clusters}
    waiting = set(labels)
    greeted: set[str] = set()

    def look() -> bool:
        for seen in hub.list(CLUSTER_API, "ManagedCluster"):
            name = seen["metadata"]["name"]
            if name not in waiting:
                continue
            if name not in greeted:
                _greet(hub, name, labels[name])
                greeted.add(name)
            if condition(seen, "ManagedClusterConditionAvailable") == "True":
                waiting.discard(name)
        return not waiting

    names = ", ".join(sorted(waiting))
    _await(f"Available for {names}", look, processes, JOIN_SECONDS)


def _greet(hub: Api, name: str, labels: dict[str, str]) -> None:
    change: dict[str, Any] = {"spec": {"hubAcceptsClient": True}, "metadata": {"labels": labels}}
    hub.patch(hub.path(CLUSTER_API, "ManagedCluster", name=name), change)


def _await_claims(hub: Api, fleet: Fleet) -> None:
    """Wait until the hub has heard every claim that the fleet makes."""
    for cluster in fleet.clusters:

        def heard(seen: dict[str, Any], wanted: dict[str, str] = cluster.claims) -> bool:
            said = {c["name"]: c["value"] for c in seen["status"].get("clusterClaims", [])}
            return wanted.items() <= said.items()

        hub.wait((CLUSTER_API, "ManagedCluster", cluster.name, ""), heard, JOIN_SECONDS)
