"""Every program is called on loopback only, on ports of its own, with no secret in its arguments."""

from __future__ import annotations

import re
from pathlib import Path

from testbed import commands
from testbed.commands import Command
from testbed.layout import HUB, Layout, Ports

LAYOUT = Layout(
    Path("/state"),
    {
        name: 100 + i
        for i, name in enumerate(
            ("etcd", "etcd-peer", "webhooks", "registration", "placement", "addon", "work")
        )
    },
    {HUB: Ports(200, 201), "berlin": Ports(300, 301, 302, 303)},
)


def find(name: str) -> Path:
    return Path("/bin") / name


def every_command() -> list[Command]:
    both = [
        make(LAYOUT, cluster, find)
        for cluster in LAYOUT.clusters
        for make in (commands.apiserver, commands.controllers)
    ]
    return [
        commands.etcd(LAYOUT, find),
        *both,
        *commands.ocm_hub(LAYOUT, find),
        commands.webhooks(LAYOUT, find),
        commands.agent(LAYOUT, "berlin", find),
        commands.kubelet(LAYOUT, "berlin", {}),
        commands.relay(LAYOUT),
    ]


def test_every_process_has_a_name_of_its_own() -> None:
    names = [command.name for command in every_command()]
    assert len(set(names)) == len(names)


def test_whoever_listens_does_so_on_loopback() -> None:
    for command in every_command():
        said = " ".join(command.argv)
        assert "=0.0.0.0" not in said
        if "--secure-port" in said:
            assert "--bind-address=127.0.0.1" in said
        assert all(a == "127.0.0.1" for a in re.findall(r"--listen=([^:]+):", said))


def test_clusters_share_etcd_under_prefixes_of_their_own() -> None:
    said = [commands.apiserver(LAYOUT, name, find).argv for name in LAYOUT.clusters]
    assert "--etcd-prefix=/hub" in said[0]
    assert "--etcd-prefix=/berlin" in said[1]


def test_the_agent_asks_by_its_bootstrap_file() -> None:
    argv = commands.agent(LAYOUT, "berlin", find).argv
    assert "--bootstrap-kubeconfig=/state/berlin/bootstrap.kubeconfig" in argv
    assert "--spoke-cluster-name=berlin" in argv


def test_replica_sets_of_works_are_on() -> None:
    work = next(c for c in commands.ocm_hub(LAYOUT, find) if c.name == "hub-work")
    assert "--feature-gates=ManifestWorkReplicaSet=true" in work.argv
