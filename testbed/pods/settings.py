"""The files and flags of a node's programs, as text: nothing is written or run here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.pods import dns
from testbed.pods.images import PAUSE
from testbed.pods.plan import GATEWAY, NodePlan

CNI_PLUGINS = Path("/usr/lib/cni")
RUNC = Path("/usr/sbin/runc")


@dataclass(frozen=True)
class NodeFiles:
    """Where everything of one node lies: one folder, unique on the machine."""

    folder: Path

    @property
    def socket(self) -> Path:
        """The socket of containerd."""
        return self.folder / "cd.sock"

    @property
    def ready(self) -> Path:
        """The file that says that the mount namespace is made."""
        return self.folder / "mounted"

    @property
    def containerd_config(self) -> Path:
        return self.folder / "containerd.toml"

    @property
    def cni(self) -> Path:
        return self.folder / "cni"

    @property
    def kubelet_config(self) -> Path:
        return self.folder / "kubelet.json"

    @property
    def kubelet_access(self) -> Path:
        return self.folder / "kubelet.kubeconfig"

    @property
    def proxy_access(self) -> Path:
        return self.folder / "kube-proxy.kubeconfig"

    def own(self) -> dict[Path, Path]:
        """Fixed places that nodes would share, and what each node has there instead."""
        return {
            Path("/var/lib/kubelet"): self.folder / "var-lib-kubelet",
            Path("/var/lib/cni"): self.folder / "var-lib-cni",
            Path("/var/log"): self.folder / "var-log",
            Path("/run/containerd"): self.folder / "run-containerd",
        }


def mount_script(files: NodeFiles) -> str:
    """Give the script that makes the node's mounts, says so and then only holds them.

    The namespace ends with its last process, and every mount of the node with it.
    Other nodes' namespaces are let go: a copied mount would keep them alive.
    """
    binds = [f"mount --bind '{mine}' '{fixed}'" for fixed, mine in files.own().items()]
    lines = [
        "set -e",
        "umount -l -R /run/netns 2>/dev/null || true",
        "mount --make-rshared /",
        *binds,
        f"touch '{files.ready}'",
        "exec sleep infinity",
    ]
    return "\n".join(lines)


def containerd_config(files: NodeFiles) -> str:
    """Give containerd's file; this host takes no AppArmor and lowers no oom score."""
    runtime = "plugins.'io.containerd.cri.v1.runtime'"
    return f"""\
version = 3
root = "{files.folder}/containerd"
state = "{files.folder}/state"
oom_score = 0
[grpc]
  address = "{files.socket}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE}"
[{runtime}]
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  [{runtime}.containerd]
    default_runtime_name = "runc"
    [{runtime}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [{runtime}.containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = "{RUNC}"
  [{runtime}.cni]
    bin_dirs = ["{CNI_PLUGINS}"]
    conf_dir = "{files.cni}"
"""


def cni_config(node: NodePlan, files: NodeFiles) -> dict[str, Any]:
    """Give the pod network: a bridge, addresses of this node's range, host ports."""
    addresses = {
        "type": "host-local",
        "dataDir": str(files.folder / "addresses"),
        "ranges": [[{"subnet": node.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, ports]}


def kubelet_config(
    node: NodePlan, files: NodeFiles, authority: Path, serving: tuple[Path, Path]
) -> dict[str, Any]:
    """Give kubelet's file: version 1 groups accepted, a tree of its own, no image ever removed."""
    certificate, key = serving
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.namespace}",
        "oomScoreAdj": 0,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{files.socket}",
        "podLogsDir": str(files.folder / "podlogs"),
        "volumePluginDir": str(files.folder / "volume-plugins"),
        "resolvConf": "",
        "clusterDNS": [dns.ADDRESS],
        "clusterDomain": dns.DOMAIN,
        "imageMinimumGCAge": "24h",
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "4s",
        "syncFrequency": "10s",  # how soon a changed Secret reaches its pod; a minute otherwise
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(key),
    }


def kubelet_flags(node: NodePlan, files: NodeFiles) -> list[str]:
    return [
        f"--config={files.kubelet_config}",
        f"--kubeconfig={files.kubelet_access}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        f"--root-dir={files.folder / 'kubelet'}",
    ]


def proxy_flags(node: NodePlan, files: NodeFiles) -> list[str]:
    """Give kube-proxy's flags; limits of connection tracking cannot be set in a namespace."""
    return [
        f"--kubeconfig={files.proxy_access}",
        "--proxy-mode=iptables",
        f"--cluster-cidr={node.cluster_pods}",
        f"--hostname-override={node.name}",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
    ]


def egress_config(socket: Path) -> dict[str, Any]:
    """Give the API server's way to kubelets, pods and services: through the relay's socket."""
    transport = {"uds": {"udsName": str(socket)}}
    connection = {"proxyProtocol": "HTTPConnect", "transport": transport}
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }


def apiserver_flags(egress: Path, kubelet_client: tuple[Path, Path], authority: Path) -> list[str]:
    """Give what an API server on loopback needs so that nodes can join it."""
    certificate, key = kubelet_client
    return [
        f"--egress-selector-config-file={egress}",
        f"--advertise-address={GATEWAY}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction,ServiceAccount",
        f"--kubelet-client-certificate={certificate}",
        f"--kubelet-client-key={key}",
        f"--kubelet-certificate-authority={authority}",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def as_text(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1)
