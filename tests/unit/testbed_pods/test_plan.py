from __future__ import annotations

import ipaddress

import pytest
from testbed.pods.plan import GATEWAY, MAX_CLUSTERS, MAX_NODES, NODES, NodePlan, api_names

EVERY = [NodePlan(f"c{n}", n, i) for n in (0, 1, MAX_CLUSTERS - 1) for i in (1, 2, MAX_NODES)]


def test_no_two_nodes_share_a_name_or_an_address() -> None:
    for what in ("name", "namespace", "link", "address", "pods"):
        assert len({getattr(node, what) for node in EVERY}) == len(EVERY)


def test_every_address_is_in_its_range_and_none_is_the_switch() -> None:
    for node in EVERY:
        assert ipaddress.ip_address(node.address) in ipaddress.ip_network(NODES)
        pods, all_pods = map(ipaddress.ip_network, (node.pods, node.cluster_pods))
        assert pods.network_address in all_pods
        assert not all_pods.overlaps(ipaddress.ip_network(NODES))
        assert node.address != GATEWAY


def test_a_link_name_is_short_enough_for_the_kernel() -> None:
    longest = NodePlan("a-very-long-cluster-name-indeed", MAX_CLUSTERS - 1, MAX_NODES)
    assert len(longest.link) <= 15


@pytest.mark.parametrize(("number", "index"), [(-1, 1), (MAX_CLUSTERS, 1), (0, 0), (0, 201)])
def test_a_node_without_an_address_is_refused(number: int, index: int) -> None:
    with pytest.raises(ValueError, match="no address"):
        NodePlan("c", number, index)


def test_pods_find_the_api_at_the_first_service() -> None:
    assert {GATEWAY, "10.0.0.1"} <= set(api_names("10.0.0.0/24"))
