"""Where sites and people find the gate. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from umbel.agent.pod.places import CONTROL_PORT, FLEET_PORT
from umbel.model.federation import Federation, SuperLink
from umbel.model.kubernetes import HubOnKubernetes
from umbel.model.status import Condition
from umbel.targets.ocm.names import Names
from umbel.targets.ocm.pods import Object

UNDECLARED: str = SuperLink.model_fields["endpoint"].default


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The two addresses, or why they are not known yet."""

    fleet: str = ""
    control: str = ""
    missing: Condition | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that the certificate must have."""
        found = (a.rpartition(":")[0].strip("[]") for a in (self.fleet, self.control) if a)
        return tuple(dict.fromkeys(found))


def find(federation: Federation, names: Names, service: Object | None) -> Endpoints:
    """Read the addresses from the document and from the Service that stands for it."""
    declared = federation.spec.superlink
    kind = (declared.kubernetes or HubOnKubernetes()).service
    host = "" if declared.endpoint == UNDECLARED else declared.endpoint
    match kind.type:
        case "Gateway" | "Ingress":
            return Endpoints(f"{kind.fleet_host}:{kind.port}", f"{kind.control_host}:{kind.port}")
        case "NodePort":
            return _node_port(host, service)
        case "LoadBalancer":
            return _load_balancer(host, names, service)
        case _:
            host = host or names.service_hosts[0]
            return Endpoints(f"{host}:{FLEET_PORT}", f"{host}:{CONTROL_PORT}")


def _node_port(host: str, service: Object | None) -> Endpoints:
    if not host:
        return _missing(
            "EndpointUndeclared",
            "a NodePort is reached by the name of a node, and the document names none",
            "set spec.superlink.endpoint to a name or address of the hub's nodes",
        )
    ports = {
        p["name"]: p.get("nodePort", 0) for p in (service or {}).get("spec", {}).get("ports", ())
    }
    if not ports.get("fleet") or not ports.get("control"):
        return _missing("EndpointPending", "the cluster has not chosen the node ports yet", "")
    return Endpoints(f"{host}:{ports['fleet']}", f"{host}:{ports['control']}")


def _load_balancer(host: str, names: Names, service: Object | None) -> Endpoints:
    given = (service or {}).get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    for one in given:
        host = host or one.get("hostname") or _bracketed(one.get("ip") or "")
    if not host or not given:
        return _missing(
            "EndpointPending",
            f"Service {names.service} waits for the address that a load balancer gives it",
            f"kubectl -n {names.namespace} describe service {names.service} tells why, if it "
            "takes long; a cluster without load balancers has the types NodePort and Gateway",
        )
    return Endpoints(f"{host}:{FLEET_PORT}", f"{host}:{CONTROL_PORT}")


def _bracketed(ip: str) -> str:
    """Write an IPv6 address so that a port can follow it."""
    return f"[{ip}]" if ":" in ip else ip


def _missing(reason: str, message: str, hint: str) -> Endpoints:
    return Endpoints(missing=Condition("EndpointKnown", "False", reason, message, hint))
