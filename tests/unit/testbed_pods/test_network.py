from __future__ import annotations

from testbed.pods.network import entering, node_commands, parting, switch_commands
from testbed.pods.plan import GATEWAY, PREFIX, SWITCH, NodePlan

FIRST = NodePlan("hub", 0, 1)
SECOND = NodePlan("hub", 0, 2)


def in_a_namespace_of_ours(argv: list[str]) -> bool:
    match argv:
        case ["ip", "netns", "add", name] | ["ip", "-n", name, *_]:
            return name.startswith(PREFIX)
        case ["nsenter", net, "--", *_]:
            return net.startswith(f"--net=/run/netns/{PREFIX}")
    return False


def test_nothing_is_done_outside_our_namespaces() -> None:
    commands = [*switch_commands(), *node_commands(FIRST), *node_commands(SECOND, [FIRST])]
    assert [argv for argv in commands if not in_a_namespace_of_ours(argv)] == []


def test_a_link_is_made_between_two_namespaces_without_touching_the_machine() -> None:
    made = next(argv for argv in node_commands(FIRST) if "veth" in argv)
    assert made[:3] == ["ip", "-n", SWITCH]
    assert made[-2:] == ["netns", FIRST.namespace]


def test_nodes_of_a_cluster_know_the_way_to_each_others_pods() -> None:
    commands = node_commands(SECOND, [FIRST])
    for one, other in ((FIRST, SECOND), (SECOND, FIRST)):
        route = ["ip", "-n", one.namespace, "route", "add", other.pods, "via", other.address]
        assert route in commands


def test_what_leaves_the_cluster_bears_the_nodes_address() -> None:
    rule = next(argv for argv in node_commands(FIRST) if "MASQUERADE" in argv)
    assert rule[rule.index("-s") + 1] == FIRST.pods
    assert rule[rule.index("!") : rule.index("-j")] == ["!", "-d", FIRST.cluster_pods]


def test_namespaces_are_entered_without_hiding_the_control_groups() -> None:
    assert entering("x") == ["nsenter", "--net=/run/netns/x", "--"]


def test_a_parted_node_neither_hears_nor_is_heard() -> None:
    rules = parting(FIRST, "10.81.9.0/24", 6443)
    assert all(in_a_namespace_of_ours(argv) for argv in rules)
    chains = [argv[argv.index("{}") + 1 : -2] for argv in rules]
    assert ["PREROUTING", "-s", "10.81.9.0/24"] in chains  # what comes
    assert ["PREROUTING", "-d", "10.81.9.0/24"] in chains  # what its pods send
    assert ["OUTPUT", "-d", "10.81.9.0/24"] in chains  # what itself sends
    api = ["-d", GATEWAY, "-p", "tcp", "--dport", "6443"]
    assert [chain[0] for chain in chains if chain[1:] == api] == ["PREROUTING", "OUTPUT"]
