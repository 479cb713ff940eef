"""Network policies become rules: what they allow passes, the rest of a selected pod's is dropped."""

from __future__ import annotations

from typing import Any

import pytest
from testbed.api import Object
from testbed.pods.policies import World, blocks, chain_of, fits, table

NODE = "berlin-1"


def pod(name: str, address: str, space: str = "here", **labels: str) -> Object:
    port = {"name": "api", "containerPort": 9094}
    return {
        "metadata": {"name": name, "namespace": space, "labels": labels},
        "spec": {"nodeName": NODE, "containers": [{"ports": [port]}]},
        "status": {"podIP": address, "phase": "Running"},
    }


def policy(space: str = "here", **spec: Any) -> Object:
    return {"metadata": {"name": "p", "namespace": space}, "spec": {"podSelector": {}, **spec}}


SPACES: list[Object] = [
    {"metadata": {"name": "here", "labels": {"team": "a"}}},
    {"metadata": {"name": "there", "labels": {"team": "b"}}},
]
SERVER = pod("server", "10.0.0.1", app="server")
FRIEND = pod("friend", "10.0.0.2", role="friend")
STRANGER = pod("stranger", "10.0.0.3")
FOREIGN = pod("foreign", "10.0.0.4", "there", role="friend")
PODS = [SERVER, FRIEND, STRANGER, FOREIGN]


def world(*policies: Object, pods: list[Object] = PODS) -> World:
    return World.of(pods, SPACES, list(policies))


def rules_of(seen: World, name: str, direction: str) -> list[str] | None:
    """Give what passes into or out of the pod; nothing if everything does."""
    (found,) = (one for one in seen.pods if one.name == name)
    chain = chain_of(found, direction)
    lines = table(seen, NODE).splitlines()
    if f":{chain} - [0:0]" not in lines:
        return None
    own = [line.removeprefix(f"-A {chain} ") for line in lines if line.startswith(f"-A {chain} ")]
    assert own[0] == "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN"
    assert own[-1] == "-j DROP"
    return [" ".join(line.removesuffix("-j RETURN").split()) for line in own[1:-1]]


def test_without_a_policy_everything_passes() -> None:
    lines = table(world(), NODE).splitlines()
    assert lines == [
        "*security",
        *(f":{name} ACCEPT [0:0]" for name in ("INPUT", "FORWARD", "OUTPUT")),
        "COMMIT",
    ]


def test_a_policy_without_rules_closes_what_it_selects_and_nothing_else() -> None:
    seen = world(policy(podSelector={"matchLabels": {"app": "server"}}))
    assert rules_of(seen, "server", "Ingress") == []
    assert rules_of(seen, "server", "Egress") is None
    assert rules_of(seen, "friend", "Ingress") is None


def test_a_policy_is_of_its_namespace() -> None:
    seen = world(policy("there"))
    assert rules_of(seen, "foreign", "Ingress") == []
    assert rules_of(seen, "server", "Ingress") is None


def test_pods_are_allowed_by_label_in_the_same_namespace() -> None:
    peer = {"podSelector": {"matchLabels": {"role": "friend"}}}
    seen = world(policy(ingress=[{"from": [peer], "ports": [{"port": 9094}]}]))
    assert rules_of(seen, "server", "Ingress") == ["-s 10.0.0.2/32 -p tcp --dport 9094"]


def test_pods_of_another_namespace_are_allowed_by_its_labels() -> None:
    peer = {"namespaceSelector": {"matchLabels": {"team": "b"}}}
    both = {**peer, "podSelector": {"matchLabels": {"role": "enemy"}}}
    assert rules_of(world(policy(ingress=[{"from": [peer]}])), "server", "Ingress") == [
        "-s 10.0.0.4/32"
    ]
    assert rules_of(world(policy(ingress=[{"from": [both]}])), "server", "Ingress") == []


def test_ports_are_numbers_ranges_names_and_protocols() -> None:
    ports = [{"port": 80, "endPort": 90}, {"port": "api"}, {"protocol": "UDP"}]
    assert rules_of(world(policy(ingress=[{"ports": ports}])), "server", "Ingress") == [
        "-s 0.0.0.0/0 -p tcp --dport 80:90",
        "-s 0.0.0.0/0 -p tcp --dport 9094",
        "-s 0.0.0.0/0 -p udp",
    ]


def test_egress_is_closed_only_if_it_is_named_or_ruled() -> None:
    assert rules_of(world(policy(policyTypes=["Egress"])), "server", "Egress") == []
    assert rules_of(world(policy(policyTypes=["Egress"])), "server", "Ingress") is None
    ruled = world(policy(egress=[{"to": [{"podSelector": {}}]}]))
    assert rules_of(ruled, "server", "Ingress") == []
    allowed = rules_of(ruled, "server", "Egress")
    assert allowed == ["-d 10.0.0.1/32", "-d 10.0.0.2/32", "-d 10.0.0.3/32"]


def test_a_named_port_of_egress_is_that_of_each_receiver() -> None:
    other = pod("other", "10.0.0.9", role="friend")
    other["spec"]["containers"][0]["ports"][0]["containerPort"] = 7
    peer = {"podSelector": {"matchLabels": {"role": "friend"}}}
    rule = policy(egress=[{"to": [peer], "ports": [{"port": "api"}]}], policyTypes=["Egress"])
    assert rules_of(world(rule, pods=[*PODS, other]), "server", "Egress") == [
        "-d 10.0.0.2/32 -p tcp --dport 9094",
        "-d 10.0.0.9/32 -p tcp --dport 7",
    ]


def test_two_policies_allow_what_either_allows() -> None:
    one, two = (policy(ingress=[{"ports": [{"port": port}]}]) for port in (1, 2))
    assert rules_of(world(one, two), "server", "Ingress") == [
        "-s 0.0.0.0/0 -p tcp --dport 1",
        "-s 0.0.0.0/0 -p tcp --dport 2",
    ]


def test_what_a_pod_sends_is_judged_before_what_a_pod_gets() -> None:
    lines = table(world(policy(policyTypes=["Ingress", "Egress"])), NODE).splitlines()
    forward = [line for line in lines if line.startswith("-A FORWARD")]
    kinds = ["-s" if " -s " in line else "-d" for line in forward]
    assert kinds == sorted(kinds, reverse=True)
    assert any(line.startswith("-A INPUT -s 10.0.0.1/32") for line in lines)


def test_a_pod_of_another_node_or_without_an_address_of_its_own_is_no_concern() -> None:
    far = pod("far", "10.0.0.5")
    far["spec"]["nodeName"] = "berlin-2"
    host = pod("host", "10.81.0.1")
    host["spec"]["hostNetwork"] = True
    ended = pod("ended", "10.0.0.6")
    ended["status"]["phase"] = "Succeeded"
    text = table(world(policy(), pods=[far, host, ended]), NODE)
    assert "DROP" not in text


def test_a_block_has_holes() -> None:
    assert blocks({"cidr": "10.0.0.0/30", "except": ["10.0.0.1/32"]}) == [
        "10.0.0.0/32",
        "10.0.0.2/31",
    ]
    assert blocks({"cidr": "fd00::/8"}) == []


@pytest.mark.parametrize(
    ("expression", "fit"),
    [
        ({"key": "a", "operator": "In", "values": ["1"]}, True),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, False),
        ({"key": "b", "operator": "NotIn", "values": ["1"]}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "a", "operator": "DoesNotExist"}, False),
    ],
)
def test_a_selector_may_have_expressions(expression: dict[str, Any], *, fit: bool) -> None:
    assert fits({"matchExpressions": [expression]}, {"a": "1"}) is fit
