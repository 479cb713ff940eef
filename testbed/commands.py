"""How every program is called. Pure: a layout in, arguments out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.layout import HUB, Layout

HUB_NAMESPACE = "open-cluster-management-hub"
AGENT_NAMESPACE = "open-cluster-management-agent"
BOOTSTRAP_USER = "ocm-bootstrap"
_HUB_CONTROLLERS = (
    "certificatesigningrequest-signing-controller",
    "certificatesigningrequest-cleaner-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
)
_SPOKE_CONTROLLERS = (
    "daemonset-controller",
    "deployment-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
)

Find = Callable[[str], Path]


@dataclass(frozen=True)
class Command:
    """One process: the name it is known by, its arguments, what it adds to the environment."""

    name: str
    argv: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)


def etcd(layout: Layout, find: Find) -> Command:
    client, peer = (f"http://127.0.0.1:{layout.shared[name]}" for name in ("etcd", "etcd-peer"))
    return Command(
        "etcd",
        [
            str(find("etcd")),
            f"--data-dir={layout.state / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ],
    )


def apiserver(layout: Layout, cluster: str, find: Find) -> Command:
    folder = layout.folder(cluster)
    return Command(
        f"{cluster}-apiserver",
        [
            str(find("kube-apiserver")),
            f"--etcd-servers=http://127.0.0.1:{layout.shared['etcd']}",
            f"--etcd-prefix=/{cluster}",
            f"--secure-port={layout.clusters[cluster].api}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--tls-cert-file={folder / 'apiserver.crt'}",
            f"--tls-private-key-file={folder / 'apiserver.key'}",
            f"--client-ca-file={folder / 'ca.crt'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'sa.pub'}",
            f"--service-account-signing-key-file={folder / 'sa.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={folder / 'made'}",
        ],
    )


def controllers(layout: Layout, cluster: str, find: Find) -> Command:
    folder = layout.folder(cluster)
    chosen = _HUB_CONTROLLERS if cluster == HUB else _SPOKE_CONTROLLERS
    return Command(
        f"{cluster}-controllers",
        [
            str(find("kube-controller-manager")),
            f"--kubeconfig={layout.kubeconfig(cluster)}",
            f"--secure-port={layout.clusters[cluster].controllers}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={folder / 'made'}",
            "--leader-elect=false",
            f"--controllers={','.join(chosen)}",
            f"--cluster-signing-cert-file={folder / 'ca.crt'}",
            f"--cluster-signing-key-file={folder / 'ca.key'}",
            f"--root-ca-file={folder / 'ca.crt'}",
            f"--service-account-private-key-file={folder / 'sa.key'}",
            "--use-service-account-credentials=false",
        ],
    )


def ocm_hub(layout: Layout, find: Find) -> list[Command]:
    """Give OCM's four hub controllers."""
    common = [
        f"--kubeconfig={layout.kubeconfig(HUB)}",
        f"--namespace={HUB_NAMESPACE}",
        "--disable-leader-election",
        "-v=2",
    ]
    special = {
        "registration": [
            "controller",
            "--feature-gates=ManagedClusterAutoApproval=true",
            f"--auto-approved-csr-users={BOOTSTRAP_USER}",
            "--enabled-registration-drivers=csr",
        ],
        "placement": ["controller"],
        "addon": ["manager"],
        "work": ["manager", "--feature-gates=ManifestWorkReplicaSet=true"],
    }
    return [
        Command(
            f"{HUB}-{name}",
            [
                str(find(f"ocm-{name}")),
                *own,
                *common,
                f"--listen=127.0.0.1:{layout.shared[name]}",
            ],
            {"POD_NAMESPACE": HUB_NAMESPACE},
        )
        for name, own in special.items()
    ]


def webhooks(layout: Layout, find: Find) -> Command:
    return Command(
        f"{HUB}-webhooks",
        [
            str(find("ocm-webhooks")),
            f"--kubeconfig={layout.kubeconfig(HUB)}",
            f"--port={layout.shared['webhooks']}",
            f"--certdir={layout.folder(HUB) / 'webhooks'}",
        ],
    )


def agent(layout: Layout, cluster: str, find: Find) -> Command:
    hub_folder = layout.folder(cluster) / "agent"
    return Command(
        f"{cluster}-agent",
        [
            str(find("ocm-registration-operator")),
            "agent",
            f"--kubeconfig={layout.kubeconfig(cluster)}",
            f"--namespace={AGENT_NAMESPACE}",
            f"--spoke-cluster-name={cluster}",
            f"--agent-id={cluster}-agent",
            f"--bootstrap-kubeconfig={layout.folder(cluster) / 'bootstrap.kubeconfig'}",
            f"--hub-kubeconfig-dir={hub_folder}",
            f"--workload-source-config={hub_folder / 'kubeconfig'}",
            f"--spoke-external-server-urls={layout.url(cluster)}",
            "--status-sync-interval=3s",
            f"--listen=127.0.0.1:{layout.clusters[cluster].agent}",
            "--disable-leader-election",
            "-v=2",
        ],
        {"POD_NAMESPACE": AGENT_NAMESPACE},
    )


def kubelet(layout: Layout, cluster: str, capacity: dict[str, str]) -> Command:
    return Command(
        f"{cluster}-kubelet",
        [
            *_ours("testbed.kubelet"),
            str(layout.kubeconfig(cluster)),
            f"{cluster}-node",
            str(layout.orders(cluster)),
            json.dumps(capacity),
        ],
        _importable(),
    )


def relay(layout: Layout) -> Command:
    return Command("relay", [*_ours("testbed.relay"), str(layout.rules)], _importable())


def _ours(module: str) -> list[str]:
    return [sys.executable, "-m", module]


def _importable() -> dict[str, str]:
    """Let a program of ours find this package wherever it is started."""
    return {"PYTHONPATH": str(Path(__file__).parents[1])}
