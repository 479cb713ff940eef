from __future__ import annotations

from typing import Any

import pytest

from umbel.model.federation import Federation
from umbel.targets.ocm.endpoints import Endpoints, find
from umbel.targets.ocm.names import Names

NAMES = Names("fl", "lab")


def document(service: dict[str, Any] | None = None, **link: Any) -> Federation:
    kubernetes = {"kubernetes": {"service": service}} if service else {}
    return Federation.model_validate(
        {
            "metadata": {"name": "lab"},
            "spec": {
                "superlink": {"on": "ocm", **link, **kubernetes},
                "groups": [{"name": "all", "on": "ocm"}],
            },
        }
    )


def seen(service: dict[str, Any] | None, there: dict[str, Any] | None = None, **link: Any) -> Any:
    return find(document(service, **link), NAMES, there)


def test_without_more_the_service_is_dialled_by_its_name_in_the_cluster() -> None:
    assert seen(None) == Endpoints("lab.fl.svc:9092", "lab.fl.svc:9093")


def test_a_declared_name_is_used_instead() -> None:
    found = seen(None, endpoint="fl.example.org")
    assert found == Endpoints("fl.example.org:9092", "fl.example.org:9093")
    assert found.hosts == ("fl.example.org",)


@pytest.mark.parametrize("kind", ["Gateway", "Ingress"])
def test_a_gateway_has_a_name_for_each_door(kind: str) -> None:
    service = {"type": kind, "fleetHost": "fleet.org", "controlHost": "people.org"}
    service |= {"gateway": "public"} if kind == "Gateway" else {}
    found = seen(service)
    assert (found.fleet, found.control) == ("fleet.org:443", "people.org:443")
    assert found.hosts == ("fleet.org", "people.org")


def node_ports(**ports: int) -> dict[str, Any]:
    return {"spec": {"ports": [{"name": name, "nodePort": port} for name, port in ports.items()]}}


def test_node_ports_are_read_from_the_service() -> None:
    there = node_ports(fleet=30001, control=30002)
    found = seen({"type": "NodePort"}, there, endpoint="node.org")
    assert found == Endpoints("node.org:30001", "node.org:30002")


def test_a_node_port_needs_the_name_of_a_node() -> None:
    found = seen({"type": "NodePort"}, node_ports(fleet=30001, control=30002))
    assert found.missing is not None
    assert found.missing.reason == "EndpointUndeclared"
    assert "endpoint" in found.missing.hint


@pytest.mark.parametrize("there", [None, {}, {"spec": {}}, node_ports(fleet=30001)])
def test_node_ports_that_are_not_chosen_yet_are_waited_for(there: dict[str, Any] | None) -> None:
    found = seen({"type": "NodePort"}, there, endpoint="node.org")
    assert found.missing is not None
    assert found.missing.reason == "EndpointPending"
    assert found.hosts == ()


def balanced(**ingress: str) -> dict[str, Any]:
    return {"status": {"loadBalancer": {"ingress": [ingress] if ingress else None}}}


@pytest.mark.parametrize("ingress", [{"hostname": "lb.org"}, {"ip": "lb.org"}])
def test_a_load_balancer_gives_the_address(ingress: dict[str, str]) -> None:
    found = seen({"type": "LoadBalancer"}, balanced(**ingress))
    assert found == Endpoints("lb.org:9092", "lb.org:9093")


def test_a_declared_name_stands_for_the_load_balancers() -> None:
    found = seen({"type": "LoadBalancer"}, balanced(ip="10.0.0.1"), endpoint="fl.example.org")
    assert found.fleet == "fl.example.org:9092"


@pytest.mark.parametrize("there", [None, {}, balanced()])
def test_a_load_balancer_without_address_is_waited_for(there: dict[str, Any] | None) -> None:
    for link in ({}, {"endpoint": "fl.example.org"}):
        found = seen({"type": "LoadBalancer"}, there, **link)
        assert found.missing is not None
        assert found.missing.reason == "EndpointPending"
        assert "Service lab" in found.missing.message
        assert "kubectl -n fl describe service lab" in found.missing.hint


def test_a_port_can_follow_a_long_address() -> None:
    found = seen({"type": "LoadBalancer"}, balanced(ip="2001:db8::7"))
    assert found == Endpoints("[2001:db8::7]:9092", "[2001:db8::7]:9093")
    assert found.hosts == ("2001:db8::7",)
