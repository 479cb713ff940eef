"""The network of the nodes: one switch, a namespace a node; the machine's own stays as it is.

    umbel-tb-switch           umbel-tb-hub-1               a pod
      br0 10.81.255.254         eth0 10.81.0.1               eth0 10.128.1.x
       └─ v0x1 ───────────────── (veth)   cni0 10.128.1.1 ──── (veth)

Links are made inside the namespaces: nothing ever stands beside the machine's own interface.
Pods of one cluster see each other; whatever leaves a cluster leaves with its node's address.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from testbed.pods.commands import CommandFailed, run
from testbed.pods.plan import GATEWAY, PREFIX, SWITCH, NodePlan

NAMESPACES = Path("/run/netns")
MOUNTS = Path("/proc/self/mounts")
Argv = list[str]


def entering(namespace: str) -> Argv:
    """Start of a command that runs in the namespace. `ip netns exec` would hide the cgroups."""
    return ["nsenter", f"--net={NAMESPACES / namespace}", "--"]


def switch_commands() -> list[Argv]:
    """Give the commands that make the switch."""
    inside = ["ip", "-n", SWITCH]
    return [
        ["ip", "netns", "add", SWITCH],
        [*inside, "link", "set", "lo", "up"],
        [*inside, "link", "add", "br0", "type", "bridge"],
        [*inside, "addr", "add", f"{GATEWAY}/16", "dev", "br0"],
        [*inside, "link", "set", "br0", "up"],
    ]


def node_commands(node: NodePlan, others: Iterable[NodePlan] = ()) -> list[Argv]:
    """Give the commands that plug a node in; others are the nodes its cluster has already."""
    inside = ["ip", "-n", node.namespace]
    switch = ["ip", "-n", SWITCH]
    peer = ["peer", "name", "eth0", "netns", node.namespace]
    leaving = ["-s", node.pods, "!", "-d", node.cluster_pods, "-j", "MASQUERADE"]
    commands = [
        ["ip", "netns", "add", node.namespace],
        [*switch, "link", "add", node.link, "type", "veth", *peer],
        [*switch, "link", "set", node.link, "master", "br0", "up"],
        [*inside, "addr", "add", f"{node.address}/16", "dev", "eth0"],
        [*inside, "link", "set", "lo", "up"],
        [*inside, "link", "set", "eth0", "up"],
        [*inside, "route", "add", "default", "via", GATEWAY],
        [*entering(node.namespace), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"],
        [*entering(node.namespace), "iptables", "-w", "-t", "nat", "-A", "POSTROUTING", *leaving],
    ]
    for other in others:
        commands += [
            [*inside, "route", "add", other.pods, "via", other.address],
            ["ip", "-n", other.namespace, "route", "add", node.pods, "via", node.address],
        ]
    return commands


def make_switch() -> None:
    """Make the switch; one that is there is kept."""
    if not (NAMESPACES / SWITCH).exists():
        for argv in switch_commands():
            run(argv)


def plug(node: NodePlan, others: Iterable[NodePlan] = ()) -> None:
    """Make the node's namespace and plug it into the switch."""
    make_switch()
    for argv in node_commands(node, others):
        run(argv)


def parting(node: NodePlan, far: str, port: int) -> list[Argv]:
    """Give the rules, each to be added or removed, that let nothing pass to or from far nodes.

    Their API server is at this port of the switch.
    """
    start = [*entering(node.namespace), "iptables", "-w", "-t", "raw"]
    api = ["-p", "tcp"]
    comes = (["-s", far], ["-s", GATEWAY, *api, "--sport", str(port)])
    goes = (["-d", far], ["-d", GATEWAY, *api, "--dport", str(port)])
    # What pods send is met by PREROUTING, what the node itself sends by OUTPUT.
    matches = [["PREROUTING", *match] for match in (*comes, *goes)]
    matches += [["OUTPUT", *match] for match in goes]
    return [[*start, "{}", *match, "-j", "DROP"] for match in matches]


def part(node: NodePlan, far: str, port: int) -> None:
    """Part the node and its pods from far nodes, silently; done already, it stays done."""
    join(node, far, port)
    for rule in parting(node, far, port):
        run([word.replace("{}", "-I") for word in rule])


def join(node: NodePlan, far: str, port: int) -> None:
    """Undo the parting; nothing if there was none."""
    for rule in parting(node, far, port):
        with contextlib.suppress(CommandFailed):
            run([word.replace("{}", "-D") for word in rule])


def ours(prefix: str = PREFIX) -> list[str]:
    """Give the names of our namespaces that exist."""
    if not NAMESPACES.is_dir():
        return []
    return sorted(path.name for path in NAMESPACES.iterdir() if path.name.startswith(f"{prefix}-"))


def unplug(namespace: str) -> None:
    """Remove a namespace; links, addresses and rules inside go with it."""
    with contextlib.suppress(CommandFailed):
        run(["ip", "netns", "del", namespace])
    # A crash between making the file and mounting on it leaves a plain file.
    (NAMESPACES / namespace).unlink(missing_ok=True)


def remove_all(prefix: str = PREFIX) -> None:
    """Remove every namespace of ours, and the folder `ip netns` mounted if it is empty now."""
    for namespace in ours(prefix):
        unplug(namespace)
    if NAMESPACES.is_dir() and not any(NAMESPACES.iterdir()):
        while is_mounted(NAMESPACES):
            run(["umount", str(NAMESPACES)])
        NAMESPACES.rmdir()


def is_mounted(path: Path) -> bool:
    """Tell whether something is mounted there; a folder bound to itself looks plain otherwise."""
    return any(line.split()[1] == str(path) for line in MOUNTS.read_text().splitlines())
