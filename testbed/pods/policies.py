"""Network policies as rules of a node's packet filter. Pure: objects of the cluster in, text out.

Each pod that a policy selects has a chain for each direction: what a policy allows returns, what is
left at the end is dropped. A connection that stands goes on. What a node itself sends to its pods
(probes, the API server's way in) passes, as everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from testbed.api import Object

TABLE = "security"  # nobody else has rules there: it is replaced as a whole
EVERYWHERE = "0.0.0.0/0"
INGRESS, EGRESS = "Ingress", "Egress"


@dataclass(frozen=True)
class Pod:
    """A pod as policies see it."""

    name: str
    namespace: str
    address: str
    node: str
    labels: Mapping[str, str]
    ports: Mapping[tuple[str, str], int]  # by protocol and name

    @classmethod
    def of(cls, obj: Object) -> Pod | None:
        """Read a pod; nothing if it has no address of its own."""
        meta, spec, status = obj["metadata"], obj["spec"], obj.get("status", {})
        ended = status.get("phase") in ("Succeeded", "Failed")
        if ended or spec.get("hostNetwork") or not status.get("podIP"):
            return None
        ports = {
            (port.get("protocol", "TCP"), port["name"]): port["containerPort"]
            for container in spec["containers"]
            for port in container.get("ports", [])
            if "name" in port
        }
        labels = meta.get("labels") or {}
        at = (meta["name"], meta["namespace"], status["podIP"], spec.get("nodeName", ""))
        return cls(*at, labels, ports)


@dataclass(frozen=True)
class World:
    """All that decides in one cluster."""

    pods: Sequence[Pod]
    namespaces: Mapping[str, Mapping[str, str]]  # labels by name
    policies: Sequence[Object]

    @classmethod
    def of(
        cls, pods: Sequence[Object], spaces: Sequence[Object], policies: Sequence[Object]
    ) -> World:
        names = {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in spaces}
        seen = (Pod.of(obj) for obj in pods)
        return cls([pod for pod in seen if pod], names, policies)


def fits(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Judge a label selector; an empty one takes everything."""
    wanted = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or []
    plain = all(labels.get(key) == value for key, value in wanted.items())
    return plain and all(_holds(one, labels) for one in expressions)


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values", [])
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def selecting(policies: Iterable[Object], pod: Pod, direction: str) -> list[Object]:
    """Give the policies that decide about the pod in this direction."""
    return [
        policy["spec"]
        for policy in policies
        if policy["metadata"]["namespace"] == pod.namespace
        and direction in types_of(policy["spec"])
        and fits(policy["spec"].get("podSelector") or {}, pod.labels)
    ]


def types_of(spec: Mapping[str, Any]) -> Sequence[str]:
    """Give the directions of a policy; unsaid, it is about egress only if it has rules for it."""
    said: Sequence[str] = spec.get("policyTypes") or ()
    return said or ((INGRESS, EGRESS) if spec.get("egress") else (INGRESS,))


@dataclass(frozen=True)
class Peer:
    """Whom a rule allows: addresses, and the pod that has them if it is one."""

    network: str
    pod: Pod | None = None


def peers_of(said: Sequence[Mapping[str, Any]], home: str, world: World) -> Iterator[Peer]:
    """Give whom a rule of a policy of the namespace allows; unsaid is everybody."""
    if not said:
        yield Peer(EVERYWHERE)
    for peer in said:
        if "ipBlock" in peer:
            yield from map(Peer, blocks(peer["ipBlock"]))
            continue
        spaces = {home}
        if "namespaceSelector" in peer:
            chosen = peer["namespaceSelector"]
            spaces = {name for name, labels in world.namespaces.items() if fits(chosen, labels)}
        for pod in world.pods:
            if pod.namespace in spaces and fits(peer.get("podSelector") or {}, pod.labels):
                yield Peer(f"{pod.address}/32", pod)


def blocks(block: Mapping[str, Any]) -> list[str]:
    """Give the networks of a block without its exceptions; pods have addresses of version 4 only."""
    if ":" in block["cidr"]:
        return []
    left = [IPv4Network(block["cidr"])]
    for hole in map(IPv4Network, block.get("except", [])):
        left = [part for one in left for part in _without(one, hole)]
    return [str(one) for one in sorted(left)]


def _without(network: IPv4Network, hole: IPv4Network) -> Iterable[IPv4Network]:
    return network.address_exclude(hole) if hole.subnet_of(network) else [network]


def port_matches(
    ports: Sequence[Mapping[str, Any]], receivers: Sequence[Pod]
) -> Iterator[tuple[Pod | None, str]]:
    """Give what to match for the ports; a name means another number for each receiving pod."""
    if not ports:
        yield None, ""
    for port in ports:
        protocol, number = port.get("protocol", "TCP"), port.get("port")
        start = f"-p {protocol.lower()}"
        if number is None:
            yield None, start
        elif isinstance(number, int):
            last = f":{port['endPort']}" if "endPort" in port else ""
            yield None, f"{start} --dport {number}{last}"
        else:
            for pod in receivers:
                if found := pod.ports.get((protocol, number)):
                    yield pod, f"{start} --dport {found}"


def ingress_rules(spec: Object, pod: Pod, world: World) -> Iterator[str]:
    for rule in spec.get("ingress") or []:
        for peer in peers_of(rule.get("from") or [], pod.namespace, world):
            for _, ports in port_matches(rule.get("ports") or [], [pod]):
                yield f"-s {peer.network} {ports}"


def egress_rules(spec: Object, pod: Pod, world: World) -> Iterator[str]:
    for rule in spec.get("egress") or []:
        for peer in peers_of(rule.get("to") or [], pod.namespace, world):
            receivers = [peer.pod] if peer.pod else list(world.pods)
            for receiver, ports in port_matches(rule.get("ports") or [], receivers):
                yield f"-d {f'{receiver.address}/32' if receiver else peer.network} {ports}"


def chain_of(pod: Pod, direction: str) -> str:
    """Name the chain: a name may have 28 letters."""
    key = hashlib.sha256(f"{pod.namespace}/{pod.name}".encode()).hexdigest()[:12]
    return f"{direction}-{key}"


def table(world: World, node: str) -> str:
    """Give the node's whole table, as iptables-restore reads it."""
    chains: list[str] = []
    entrances: dict[str, list[str]] = {EGRESS: [], INGRESS: []}
    rules: list[str] = []
    for pod in sorted(world.pods, key=lambda pod: (pod.namespace, pod.name)):
        for direction, allowed in ((EGRESS, egress_rules), (INGRESS, ingress_rules)):
            specs = selecting(world.policies, pod, direction) if pod.node == node else []
            if not specs:
                continue
            chain = chain_of(pod, direction)
            chains.append(f":{chain} - [0:0]")
            entrances[direction] += _entrances(pod, direction, chain)
            rules.append(f"-A {chain} -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN")
            passes = {match for spec in specs for match in allowed(spec, pod, world)}
            rules += [f"-A {chain} {match} -j RETURN" for match in sorted(passes)]
            rules.append(f"-A {chain} -j DROP")
    # What a pod may send is judged first, then what a pod may get: both must allow it.
    lines = [f"*{TABLE}", *(f":{name} ACCEPT [0:0]" for name in ("INPUT", "FORWARD", "OUTPUT"))]
    lines += [*chains, *entrances[EGRESS], *entrances[INGRESS], *rules, "COMMIT"]
    return "\n".join(lines) + "\n"


def _entrances(pod: Pod, direction: str, chain: str) -> list[str]:
    if direction == INGRESS:
        return [f"-A FORWARD -d {pod.address}/32 -j {chain}"]
    return [f"-A {hook} -s {pod.address}/32 -j {chain}" for hook in ("FORWARD", "INPUT")]
