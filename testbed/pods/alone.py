"""One cluster with real nodes and nothing else: no hub, no OCM."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed import certificates, commands
from testbed.api import Api
from testbed.certificates import SERVER_ADDRESSES, Authority
from testbed.commands import Command
from testbed.layout import HUB, Layout, plan
from testbed.pods.clusters import Cluster, RealNodes
from testbed.pods.node import Node, Pods, clean
from testbed.pods.plan import GATEWAY
from testbed.processes import Processes, Record
from testbed.programs import program
from testbed.waiting import eventually

READY_S = 120


@dataclass(frozen=True)
class Alone:
    """A cluster that runs, and its nodes."""

    cluster: Cluster
    pods: Pods
    nodes: tuple[Node, ...]


@contextmanager
def alone(state: Path, archive: Path, nodes: int = 1) -> Iterator[Alone]:
    """Bring one cluster up, and down again; what a crashed one left is removed first."""
    clean(state)
    layout = plan(state, [])
    processes = Processes(state)
    real = RealNodes(layout, processes, archive, nodes)
    try:
        start_control_plane(layout, identities(layout), real)
        started = real.join(HUB)
        yield Alone(real.clusters[HUB], real.pods, tuple(started))
    finally:
        stop(processes)
        clean(state)
    shutil.rmtree(state)


def stop(processes: Processes) -> None:
    """End every process; the API server after those that speak to it, the store last."""
    records = {record.name: record for record in processes.all()}
    servers = [records.pop(name) for name in (f"{HUB}-apiserver", "etcd") if name in records]
    processes.stop(list(records.values()))
    for server in servers:
        processes.stop([server])


def identities(layout: Layout) -> Authority:
    """Write the cluster's authority, its certificates and its administrator's kubeconfig."""
    folder = layout.folder(HUB)
    authority = Authority(folder, HUB)
    authority.server("apiserver", addresses=(*SERVER_ADDRESSES, GATEWAY))
    tokens = certificates.new_key()
    certificates.write_key(folder / "sa.key", tokens)
    certificates.write_public_key(folder / "sa.pub", tokens)
    pair = authority.client("admin", "admin", ["system:masters"])
    kubeconfig, url = layout.kubeconfig(HUB), layout.url(HUB)
    certificates.write_kubeconfig(kubeconfig, url, authority.certificate_file, *pair)
    return authority


def start_control_plane(layout: Layout, authority: Authority, real: RealNodes) -> None:
    """Start store, API server and controllers."""
    processes = real.pods.processes

    def start(command: Command) -> Record:
        return processes.start(command.name, command.argv, command.env)

    start(commands.etcd(layout, program))
    plain = commands.apiserver(layout, HUB, program)
    server = start(real.apiserver(HUB, authority, plain))

    def answers() -> bool:
        processes.assert_runs(server)
        return api.is_ready()

    with Api(layout.kubeconfig(HUB)) as api:
        eventually("the API server's readiness", answers, READY_S)
    start(real.controllers(commands.controllers(layout, HUB, program)))
